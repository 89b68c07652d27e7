"""Messages over REST: peeked, by id, examined, by time, the last one."""

from __future__ import annotations

import urllib.error
import urllib.request

import pulsar
import pytest

from tests import changes
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import SHARED, receive, send_batched
from tests.conformance.test_admin_cursors import filled, now_ms, sub
from tests.eventually import eventually


def _get(broker: Broker, path: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers (names in lower case) and body."""
    try:
        with urllib.request.urlopen(broker.admin_url + path, timeout=60) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, {}, error.read()


def test_peeking_moves_nothing(broker: Broker) -> None:
    # covers CUR-15, ADM-69
    topic, ids = filled(broker, 4)
    consumer = broker.client().subscribe(topic, "s", SHARED)
    consumer.acknowledge(receive(consumer, 4)[1])
    consumer.close()
    eventually(lambda: broker.backlog(topic) == 3)
    for _ in range(2):
        status, headers, body = _get(broker, f"{sub(topic)}/position/1")
        assert (status, body) == (200, b"0")
        assert headers["x-pulsar-message-id"] == f"{ids[0].ledger_id()}:{ids[0].entry_id()}"
        assert headers["x-pulsar-publish-time"]
    assert _get(broker, f"{sub(topic)}/position/2")[2] == b"2"
    assert _get(broker, f"{sub(topic)}/position/3")[2] == b"3"
    status, answer = broker.rest("GET", f"{sub(topic)}/position/4")
    assert (status, answer["reason"]) == (404, "Message not found")
    assert broker.backlog(topic) == 3


@pytest.mark.ours_only("CUR-15")
def test_peeking_makes_no_subscription(broker: Broker) -> None:
    topic, _ = filled(broker, 2)
    assert broker.rest("GET", f"{sub(topic, 'new')}/position/1")[0] == 404
    assert broker.rest("GET", f"{topic_path(topic)}/examinemessage")[0] == 200
    assert broker.rest("GET", f"{topic_path(topic)}/subscriptions") == (200, ["s"])


def test_what_a_message_is_shown_with(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers ADM-69 (headers)
    client.subscribe(topic, "s").close()
    producer = client.create_producer(topic, producer_name="me", compression_type=pulsar.CompressionType.LZ4)
    producer.send(b"v" * 1_000, properties={"k": "1"}, partition_key="key", event_timestamp=1_700_000_000_000)
    status, headers, body = _get(broker, f"{sub(topic)}/position/1")
    assert (status, body) == (200, b"v" * 1_000)
    assert headers["x-pulsar-property"].replace(" ", "") == '{"k":"1"}'
    assert headers["x-pulsar-partition-key"] == "key"
    assert headers["x-pulsar-producer-name"] == "me"
    assert headers["x-pulsar-sequence-id"] == "0"
    assert headers["x-pulsar-is-encrypted"] == "false"
    assert "x-pulsar-event-time" in headers
    assert "x-pulsar-num-batch-message" not in headers


def test_a_batch_is_shown_as_one(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers ADM-69 (batches)
    client.subscribe(topic, "s").close()
    send_batched(client, topic, ["a", "b", "c"])
    _, headers, body = _get(broker, f"{sub(topic)}/position/1")
    assert headers["x-pulsar-num-batch-message"] == "3"
    assert headers["x-pulsar-property"] == "{}"
    size = int.from_bytes(body[:4], "big")
    assert body[4 + size : 4 + size + 1] == b"a"
    assert headers["x-pulsar-batch-size"] == str(len(body) + 10), "with checksum and sizes"


def test_a_message_by_its_id(broker: Broker) -> None:
    # covers ADM-69
    topic, ids = filled(broker, 3)
    ledger = ids[1].ledger_id()
    status, headers, body = _get(broker, f"{topic_path(topic)}/ledger/{ledger}/entry/{ids[1].entry_id()}")
    assert (status, body) == (200, b"1")
    assert headers["x-pulsar-message-id"] == f"{ledger}:{ids[1].entry_id()}"
    status, answer = broker.rest("GET", f"{topic_path(topic)}/ledger/{ledger + 1_000_000}/entry/0")
    assert (status, answer["reason"]) == (404, "Message id not found")
    assert broker.rest("GET", f"{topic_path(broker.topic(partitions=2))}/ledger/1/entry/1")[0] == 405


def test_examining(broker: Broker) -> None:
    # covers ADM-69
    topic, _ = filled(broker, 4)
    path = f"{topic_path(topic)}/examinemessage"
    for query, expected in [
        ("", b"3"),
        ("?initialPosition=earliest", b"0"),
        ("?initialPosition=earliest&messagePosition=2", b"1"),
        ("?initialPosition=latest&messagePosition=2", b"2"),
        ("?initialPosition=earliest&messagePosition=99", b"3"),
        ("?initialPosition=earliest&messagePosition=0", b"0"),
    ]:
        assert _get(broker, path + query)[2] == expected, query
    empty = broker.topic()
    broker.client().subscribe(empty, "s").close()
    status, answer = broker.rest("GET", f"{topic_path(empty)}/examinemessage")
    assert (status, answer["reason"]) == (412, "Could not examine messages due to the total message is zero")


def test_an_id_by_time_and_the_last_id(broker: Broker) -> None:
    # covers ADM-69, CUR-12, RD-3
    topic, ids = filled(broker, 3)
    ledger, entry = ids[0].ledger_id(), ids[0].entry_id()
    status, answer = broker.rest("GET", f"{topic_path(topic)}/messageid/1")
    assert (status, answer["ledgerId"], answer["entryId"]) == (200, ledger, entry)
    later_ms = now_ms(broker) + 1_000_000
    answer = broker.rest("GET", f"{topic_path(topic)}/messageid/{later_ms}")[1]
    assert (answer["ledgerId"], answer["entryId"]) == (ledger, ids[2].entry_id() + 1)
    status, answer = broker.rest("GET", f"{topic_path(topic)}/lastMessageId")
    assert (status, answer["ledgerId"], answer["entryId"]) == (200, ledger, ids[2].entry_id())
    send_batched(broker.client(), topic, ["a", "b", "c"])
    answer = broker.rest("GET", f"{topic_path(topic)}/lastMessageId")[1]
    assert (answer["entryId"], answer["batchIndex"]) == (ids[2].entry_id() + 1, 2)
    empty = broker.topic()
    broker.client().subscribe(empty, "s").close()
    answer = broker.rest("GET", f"{topic_path(empty)}/lastMessageId")[1]
    assert (answer["ledgerId"] >= 0, answer["entryId"]) == (True, -1)
    confirmed = broker.rest("GET", f"{topic_path(empty)}/internalStats")[1]["lastConfirmedEntry"]
    assert confirmed == f"{answer['ledgerId']}:-1"
    assert broker.rest("GET", f"{topic_path(topic)}/messageid/nonsense")[0] == 404


def test_the_last_id_of_a_trimmed_topic_is_that_of_none(broker: Broker) -> None:
    # covers RD-3, TRIM-2
    topic, ids = filled(broker, 2)
    last = f"{ids[1].ledger_id()}:{ids[1].entry_id()}"
    assert broker.rest("POST", f"{sub(topic)}/skip_all")[0] == 204
    assert broker.rest("PUT", f"{topic_path(topic)}/unload")[0] == 204
    broker.client().create_producer(topic).close()
    eventually(lambda: broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]["numberOfEntries"] == 0)
    answer = broker.rest("GET", f"{topic_path(topic)}/lastMessageId")[1]
    assert (answer["ledgerId"], answer["entryId"]) == (-1, -1)
    stats = broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]
    mark_delete = f"{stats['ledgers'][-1]['ledgerId']}:-1" if broker.has(changes.MARK_DELETE_MOVES) else last
    assert (stats["lastConfirmedEntry"], stats["cursors"]["s"]["markDeletePosition"]) == (last, mark_delete)
