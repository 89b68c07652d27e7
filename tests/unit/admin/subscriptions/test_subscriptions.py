"""Subscriptions and messages over REST, on a core in memory: bodies of every form, refusals, what needs a read."""

import json
from typing import Any

import pytest
from crc32c import crc32c

from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.admin.subscriptions.cursors import Place, place_in
from spark_pulsar.admin.topics.messages import Stored, message_answer
from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.model.limits import MAX_BROKER_DECOMPRESSED_SIZE_BYTES
from spark_pulsar.model.positions.ids import EARLIEST, LATEST, Position
from spark_pulsar.wire.entries.compression import compress
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.pulsar_api_pb2 import ZSTD, MessageMetadata
from tests.unit.admin.test_app import BASE, call
from tests.unit.broker.dispatch.test_dispatch import filled
from tests.unit.broker.world import KEPT, START_MS, World, entry

SUB = f"{BASE}/t/subscription"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (None, None),
        ({}, None),
        ("latest", Place(LATEST)),
        ("earliest", Place(EARLIEST)),
        ({"ledgerId": 3, "entryId": "4"}, Place(Position(3, 4))),
        ({"ledgerId": -1, "entryId": -1, "partitionIndex": -1}, Place(EARLIEST)),
        (
            {"ledgerId": 3, "entryId": 4, "partitionIndex": 1, "batchIndex": 2, "excluded": True, "properties": {}},
            Place(Position(3, 4), 2, 1, True),
        ),
        ({"ledgerId": 3, "entryId": 4, "isExcluded": True}, Place(Position(3, 4), excluded=True)),
        ({"properties": {"k": "v"}}, Place(LATEST, properties={"k": "v"})),
    ],
)
def test_a_place_in_any_form(body: object, place: Place | None) -> None:
    # covers T-13, T-16
    assert place_in(body) == place


@pytest.mark.parametrize("body", [[], 7, "12:4", {"ledgerId": 1}, {"ledgerId": 1, "entryId": "x"}, {"entryId": 1}])
def test_a_place_in_no_form(body: object) -> None:
    with pytest.raises(Refused) as refused:
        place_in(body)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("PUT", "/t/subscription/pulsar.dedup", b"", 412, "reserved"),
        ("PUT", "/t/subscription/pulsar.repl.x", b"", 412, "reserved"),
        ("POST", "/t/subscription/s/resetcursor", b"", 400, "names no message id"),
        ("POST", "/t/subscription/s/resetcursor", b"{", 400, "no JSON"),
        ("POST", "/t/subscription/s/resetcursor/soon", b"", 404, "no number"),
        ("POST", "/t/subscription/s/expireMessages", b"", 400, "names no message id"),
        ("POST", "/t/subscription/s/expireMessages/x", b"", 404, "no number"),
        ("GET", "/t/subscription/s/position/0", b"", 412, "from 1 on"),
        ("PUT", "/t/subscription/s/properties", b"[1]", 400, "want a map"),
        ("POST", "/parted/subscription/none/skip_all", b"", 404, "Subscription none not found for topic"),
        ("GET", "/parted/examinemessage", b"", 405, "please try examine message on specific topic partition"),
        ("GET", "/parted/messageid/1", b"", 405, "please try do it on specific topic partition"),
        ("PUT", "/parted/backlogSize", b'{"ledgerId":1,"entryId":0}', 405, "do it on specific topic partition"),
        ("PUT", "/none/backlogSize", b'{"ledgerId":1,"entryId":0}', 404, "not found"),
        ("PUT", "/t/backlogSize", b"", 400, "names no message id"),
        ("GET", "/parted/ledger/1/entry/1", b"", 405, "GetMessageById is not allowed on partitioned-topic"),
        ("GET", "/parted/lastMessageId", b"", 404, "not found"),
    ],
)
def test_what_is_refused(method: str, path: str, body: bytes, status: int, reason: str) -> None:
    # covers ADM-74, ADM-69
    world, client = filled(3)
    client.open_consumer()
    assert call(world, "PUT", f"{BASE}/parted/partitions", b"2")[0] == 204
    answered, _, answer = call(world, method, f"{BASE}{path}", body)
    assert (answered, reason in answer["reason"]) == (status, True), answer


def test_topics_that_may_not_come_into_being() -> None:
    # covers TN-7
    status, _, answer = call(World(allow_auto_topic_creation=False), "PUT", f"{SUB}/s")
    assert (status, answer["reason"]) == (412, "Topic does not exist and cannot be auto-created")
    world = World(auto_topic_creation_partitioned=True, default_num_partitions=3)
    assert call(world, "PUT", f"{SUB}/s")[0] == 204
    assert len(world.state.topics) == 3
    assert call(world, "GET", f"{BASE}/t/subscriptions")[2] == ["s"]


def test_a_subscription_that_lacks_on_one_partition_only() -> None:
    # covers PT-7, ADM-74
    world = World()
    assert call(world, "PUT", f"{BASE}/t/partitions", b"2")[0] == 204
    assert call(world, "PUT", f"{BASE}/t-partition-0/subscription/s")[0] == 204
    assert call(world, "PUT", f"{SUB}/s")[0] == 204
    assert call(world, "PUT", f"{SUB}/s")[0] == 409


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["stored", "cached"])
def test_orders_that_must_read_first(cache_bytes: int) -> None:
    # covers CUR-12, CUR-15, TTL-8
    world, client = filled(4, cache_bytes=cache_bytes)
    client.open_consumer()
    client.close()
    assert call(world, "GET", f"{SUB}/s/position/2")[2] == "1"
    assert call(world, "GET", f"{BASE}/t/examinemessage?messagePosition=1")[2] == "3"
    answer = call(world, "GET", f"{BASE}/t/messageid/{START_MS + 1}")[2]
    assert (answer["ledgerId"], answer["entryId"], answer["partitionIndex"]) == (1, 4, -1)
    assert call(world, "POST", f"{SUB}/s/resetcursor/{START_MS + 1}")[0] == 204
    assert world.state.cursors[1].backlog() == 0
    body = json.dumps({"ledgerId": 1, "entryId": 1, "batchIndex": 0}).encode()
    assert call(world, "POST", f"{SUB}/s/resetcursor", body)[0] == 204
    assert world.state.cursors[1].backlog() == 3
    world.now_ms += 5_000
    assert call(world, "POST", f"{SUB}/s/expireMessages/1")[0] == 204
    assert world.state.cursors[1].backlog() == 0


def _shown(payload: bytes, **metadata: Any) -> tuple[dict[str, str], bytes]:
    stored = build_entry(MessageMetadata(producer_name="p", sequence_id=7, publish_time=1_000, **metadata), payload)
    answer = message_answer(Stored(Position(3, 4), stored, is_uncommitted=False, is_withheld=False))
    return {name.decode(): value.decode() for name, value in answer.raw_headers}, bytes(answer.body)


def test_a_message_that_says_it_is_huge_is_not_inflated() -> None:
    """Sixteen kilobytes became 512 MB in the broker's memory."""
    size = MAX_BROKER_DECOMPRESSED_SIZE_BYTES
    assert _shown(compress(ZSTD, bytes(size)), compression=ZSTD, uncompressed_size=size)[1] == bytes(size)
    with pytest.raises(CorruptMessage, match="is outside"):
        _shown(compress(ZSTD, bytes(size + 1)), compression=ZSTD, uncompressed_size=size + 1)


@pytest.mark.parametrize("time_ms", [2**62, 2**63 - 1, 253_402_300_800_000])
def test_times_beyond_the_calendar_are_numbers(time_ms: int) -> None:
    headers, _ = _shown(b"x", event_time=time_ms, deliver_at_time=-time_ms)
    assert headers["X-Pulsar-event-time"] == str(time_ms)
    assert headers["X-Pulsar-deliver-at-time"] == str(-time_ms)


@pytest.mark.parametrize(
    ("key", "shown"),
    [("a\r\nX-Evil: 1", "a  X-Evil: 1"), ("a\0b", "a b"), (" lead", "lead"), ("trail\n", "trail"), ("\x7f\x01", "")],
)
def test_a_key_that_is_no_header_is_shown_as_one(key: str, shown: str) -> None:
    """The web server refused to send it, with a traceback and without an answer."""
    assert _shown(b"x", partition_key=key)[0]["X-Pulsar-partition-key"] == shown


def test_a_message_that_nobody_can_read_is_its_producers_fault() -> None:
    world = World(**KEPT)
    client = world.connect()
    client.open_producer()
    stored = bytearray(entry("x"))
    stored[10:] = bytes(len(stored) - 10)  # metadata are zeros, and the checksum is right
    stored[2:6] = crc32c(bytes(stored[6:])).to_bytes(4)
    client.publish(1, bytes(stored))
    status, _, answer = call(world, "GET", f"{BASE}/t/examinemessage")
    assert (status, "metadata" in answer["reason"]) == (412, True)


def test_what_a_message_is_shown_with() -> None:
    # covers ADM-69 (headers)
    headers, body = _shown(
        compress(ZSTD, b"v" * 99),
        compression=ZSTD,
        uncompressed_size=99,
        partition_key="ü",
        ordering_key=b"\0\1",
        event_time=2_000,
        deliver_at_time=3_000,
        null_value=False,
        properties=[{"key": "k", "value": "ü"}],
    )
    assert body == b"v" * 99
    assert headers == headers | {
        "X-Pulsar-Message-ID": "3:4",
        "X-Pulsar-publish-time": "1970-01-01T00:00:01.000Z",
        "X-Pulsar-event-time": "1970-01-01T00:00:02.000Z",
        "X-Pulsar-deliver-at-time": "1970-01-01T00:00:03.000Z",
        "X-Pulsar-producer-name": "p",
        "X-Pulsar-sequence-id": "7",
        "X-Pulsar-partition-key": "ü",
        "X-Pulsar-Base64-ordering-key": "AAE=",
        "X-Pulsar-compression": "ZSTD",
        "X-Pulsar-uncompressed-size": "99",
        "X-Pulsar-Is-Encrypted": "false",
    }
    assert json.loads(headers["X-Pulsar-PROPERTY"]) == {"k": "ü"}
    assert "X-Pulsar-num-batch-message" not in headers


def test_ciphertext_is_shown_as_it_is() -> None:
    # covers ADM-69
    headers, body = _shown(b"secret", compression=ZSTD, encryption_keys=[{"key": "k", "value": b"v"}])
    assert (body, headers["X-Pulsar-Is-Encrypted"]) == (b"secret", "true")


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20], ids=["stored", "cached"])
def test_the_size_of_what_is_stored_from_a_message_on(cache_bytes: int) -> None:
    # covers ST-6
    world = World(cache_bytes=cache_bytes, ledger_max_entries=2, ledger_min_age_ms=-1)
    client = world.connect()
    client.open_consumer()
    client.open_producer(name=None)
    sent = [entry("x" * size) for size in (10, 500, 3, 70)]
    places = []
    for each in sent:
        client.publish(1, each)
        places += [position for _, position in client.receipts()]
    assert places[2].ledger_id > places[0].ledger_id
    for place, expected in (
        *((place, sum(map(len, sent[index:]))) for index, place in enumerate(places)),
        (EARLIEST, sum(map(len, sent))),
        (Position(places[-1].ledger_id, 99), 0),
        (Position(99, 0), 0),
    ):
        body = json.dumps({"ledgerId": place.ledger_id, "entryId": place.entry_id}).encode()
        assert call(world, "PUT", f"{BASE}/t/backlogSize", body)[::2] == (200, expected), place
    assert call(world, "GET", "/admin/v2/brokers/backlog-quota-check")[0] == 204
