"""Messages of transactions: when they are visible, in which order, and what never is."""

from __future__ import annotations

from typing import Any

import pytest

from spark_pulsar.client.clock import wall_ms
from tests.brokers import Broker, topic_path
from tests.conformance.transactions.transacting import NO_MESSAGE, Transacting, ids
from tests.eventually import eventually
from tests.raw import command_bytes, entry_bytes, frame_bytes


def _topic(client: Transacting, **subscribed: object) -> str:
    topic = client.broker.topic()
    client.produce(topic)
    client.subscribe(topic, **subscribed)  # type: ignore[arg-type]
    return topic


def _entry(position: tuple[int, int]) -> int:
    return position[1]


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Failover", "Key_Shared"])
def test_nothing_comes_from_the_first_open_entry_on(client: Transacting, kind: str) -> None:
    # covers TX-8, TX-9
    topic = _topic(client, kind=kind)
    first = client.send(b"before")
    transaction = client.begin(topic)
    for payload, within in ((b"in", transaction), (b"plain", None), (b"in too", transaction)):
        client.send(payload, within)
    assert client.take(1) == [b"before"]
    assert client.last_position() == first
    client.commit(transaction)
    frames = client.take_frames(3)
    assert [frame.payload for frame in frames] == [b"in", b"plain", b"in too"]
    assert [frame.metadata.get("txnid_least_bits") for frame in frames if frame.metadata] == [
        transaction[1],
        None,
        transaction[1],
    ]
    assert client.last_position() == frames[2].position


def test_a_topic_that_was_not_added_waits_until_it_is(client: Transacting) -> None:
    # covers TX-8, TX-4
    topic = _topic(client)
    transaction = client.begin()
    client.send(b"in", transaction)
    client.raw.expect_no_message()
    client.add_topics(transaction, topic)
    client.commit(transaction)
    assert client.take(1) == [b"in"]


def test_entry_ids_of_messages_and_markers(client: Transacting) -> None:
    # covers TX-8, TX-10
    topic = _topic(client)
    transaction = client.begin(topic)
    assert [_entry(client.send(b"in", transaction)), _entry(client.send(b"plain"))] == [0, 1]
    client.commit(transaction)
    assert _entry(client.send(b"after the marker")) == 3
    client.abort(client.begin(topic))
    assert _entry(client.send(b"after an empty one")) == 5
    assert client.take(4) == [b"in", b"plain", b"after the marker", b"after an empty one"]


def test_two_interleaved_transactions(client: Transacting) -> None:
    # covers TX-9, TX-11
    topic = _topic(client)
    a, b = client.begin(topic), client.begin(topic)
    for payload, within in ((b"p0", None), (b"a0", a), (b"b0", b), (b"p1", None), (b"a1", a), (b"b1", b)):
        client.send(payload, within)
    assert client.take(1) == [b"p0"]
    client.commit(b)
    client.raw.expect_no_message()
    client.abort(a)
    assert client.take(3) == [b"b0", b"p1", b"b1"]


def test_one_transaction_on_two_topics(broker: Broker, client: Transacting) -> None:
    # covers TX-6, TX-9
    topics = broker.topic(), broker.topic()
    for number, topic in enumerate(topics, 1):
        client.produce(topic, number)
        client.subscribe(topic, consumer_id=number)
    for action, expected in (("ABORT", 0), ("COMMIT", 2)):
        transaction = client.begin(*topics)
        for number in (1, 2):
            client.send(action.encode(), transaction, number)
        client.raw.expect_no_message()
        assert client.end(transaction, action).fields.get("error") is None
        assert client.take(expected) == [b"COMMIT"] * expected


def test_aborted_messages_are_never_seen(client: Transacting) -> None:
    # covers TX-11, TX-10
    topic = _topic(client)
    transaction = client.begin(topic)
    client.send(b"gone", transaction)
    assert client.last_position() == NO_MESSAGE
    client.abort(transaction)
    assert client.last_position() == NO_MESSAGE
    client.raw.expect_no_message()
    kept = client.send(b"kept")
    again = client.begin(topic)
    client.send(b"gone too", again)
    client.abort(again)
    assert client.take(1) == [b"kept"]
    assert client.last_position() == kept
    client.subscribe(topic, "Exclusive", "late", consumer_id=2)
    client.subscribe(topic, "Exclusive", "reader", 3, durable=False, start_message_id={"ledgerId": 0, "entryId": 0})
    frames = client.take_frames(2)
    assert [(frame["consumer_id"], frame.payload) for frame in sorted(frames, key=lambda f: int(f["consumer_id"]))] == [
        (2, b"kept"),
        (3, b"kept"),
    ]


def test_aborted_messages_and_markers_leave_the_backlog(client: Transacting) -> None:
    # covers TX-10, TX-11
    topic = _topic(client)
    client.send(b"plain")
    transaction = client.begin(topic)
    client.send(b"gone", transaction)
    assert client.backlog(topic) == 2
    client.abort(transaction)
    committed = client.begin(topic)
    client.send(b"kept", committed)
    client.commit(committed)
    frames = client.take_frames(2)
    assert eventually(lambda: client.backlog(topic) == 2)
    client.ack([frame.position for frame in frames])
    assert eventually(lambda: client.backlog(topic) == 0)
    assert eventually(lambda: client.cursor(topic) == (4, "[]"))


def test_subscriptions_that_begin_while_a_transaction_is_open(client: Transacting, topic: str) -> None:
    # covers TX-8, TX-9
    client.produce(topic, txn_enabled=True)
    client.send(b"before")
    transaction = client.begin(topic)
    client.send(b"in", transaction)
    client.send(b"plain")
    client.subscribe(topic, name="earliest", consumer_id=1)
    client.subscribe(topic, name="latest", consumer_id=2, initialPosition="Latest")
    assert client.take(1) == [b"before"]
    assert client.backlog(topic, "latest") == 0
    client.commit(transaction)
    assert [(frame["consumer_id"], frame.payload) for frame in client.take_frames(2)] == [(1, b"in"), (1, b"plain")]
    client.send(b"after")
    assert sorted(frame["consumer_id"] for frame in client.take_frames(2)) == [1, 2]


def test_a_batch_in_a_transaction(client: Transacting) -> None:
    # covers TX-18
    topic = _topic(client)
    transaction = client.begin(topic)
    position = client.send_batch(3, transaction)
    client.raw.expect_no_message()
    client.commit(transaction)
    (frame,) = client.take_frames(1)
    assert frame.metadata is not None
    assert frame.metadata["num_messages_in_batch"] == 3
    last = client.raw.request("GET_LAST_MESSAGE_ID", consumer_id=1)["last_message_id"]
    assert (last["ledgerId"], last["entryId"], last["batch_index"]) == (*position, 2)
    assert client.stats(topic)["subscriptions"]["s"]["unackedMessages"] == 3


def test_chunks_in_a_transaction(client: Transacting) -> None:
    # covers TX-18
    topic = _topic(client, kind="Exclusive")
    transaction = client.begin(topic)
    for number in range(2):
        chunk = {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 4, "chunk_id": number}
        client.send(b"c%d" % number, transaction, sequence_id=0, metadata=chunk, is_chunk=True)
    client.raw.expect_no_message()
    client.commit(transaction)
    assert client.take(2) == [b"c0", b"c1"]


def test_a_delayed_message_waits_for_the_commit_and_its_time(client: Transacting) -> None:
    # covers TX-18
    topic = _topic(client)
    for action in ("ABORT", "COMMIT"):
        transaction = client.begin(topic)
        client.send(b"delayed", transaction, metadata={"deliver_at_time": wall_ms() + 1500})
        client.send(action.encode(), transaction)
        client.end(transaction, action)
    (now,) = client.raw.expect_messages(1)
    (later,) = client.take_frames(1)
    assert (now.payload, later.payload) == (b"COMMIT", b"delayed")
    client.ack([now.position, later.position])
    assert eventually(lambda: client.backlog(topic) == 0)


def test_sequence_ids_of_an_aborted_transaction_stay_taken(broker: Broker, client: Transacting, topic: str) -> None:
    # covers TX-18
    assert broker.rest("PUT", topic_path(topic))[0] == 204
    assert broker.rest("POST", f"{topic_path(topic)}/deduplicationEnabled", True)[0] == 204
    assert eventually(lambda: client.stats(topic)["deduplicationStatus"] == "Enabled")
    client.produce(topic)
    client.subscribe(topic)
    transaction = client.begin(topic)
    assert client.send(b"x", transaction, sequence_id=5) != NO_MESSAGE
    assert client.send(b"x", transaction, sequence_id=5) == NO_MESSAGE
    assert client.send(b"x", sequence_id=5) == NO_MESSAGE
    client.abort(transaction)
    again = client.begin(topic)
    assert client.send(b"x", again, sequence_id=5) == NO_MESSAGE
    assert client.send(b"y", again, sequence_id=6) != NO_MESSAGE
    client.commit(again)
    assert client.take(1) == [b"y"]


def test_the_command_decides_not_the_metadata(client: Transacting) -> None:
    # covers TX-8
    topic = _topic(client)
    transaction = client.begin(topic)
    client.send(b"in metadata only", metadata=ids(transaction))
    assert client.take(1) == [b"in metadata only"]
    half: dict[str, Any] = {"txnid_least_bits": transaction[1]}
    client.send(b"half an id", metadata=half, **half)
    assert client.take(1) == [b"half an id"]
    described = {"producer_name": "p", "sequence_id": 9, "publish_time": 1}
    command = command_bytes("SEND", {"producer_id": 1, "sequence_id": 9, **ids(transaction)})
    client.raw.send_bytes(frame_bytes(command, entry_bytes(described, b"in command only")))
    assert client.raw.answer_to_send().type == "SEND_RECEIPT"
    client.raw.expect_no_message()
    client.commit(transaction)
    assert client.take(1) == [b"in command only"]


def test_a_consumer_that_reads_behind_an_aborted_range_uses_no_permit_for_it(client: Transacting, topic: str) -> None:
    # covers TX-11
    client.produce(topic)
    transaction = client.begin(topic)
    for _ in range(20):
        client.send(b"gone", transaction)
    client.abort(transaction)
    for number in range(3):
        client.send(b"%d" % number)
    client.subscribe(topic, permits=2)
    assert client.take(2) == [b"0", b"1"]
    client.raw.send("FLOW", consumer_id=1, messagePermits=1)
    assert client.take(1) == [b"2"]


def test_what_the_broker_does_not_read_comes_as_it_was_sent(client: Transacting) -> None:
    # covers TX-18
    topic = _topic(client)
    transaction = client.begin(topic)
    metadata = {
        "partition_key": "k",
        "properties": [{"key": "a", "value": "b"}],
        "schema_version": "00",
        "encryption_keys": [{"key": "k", "value": "aa"}],
        "encryption_algo": "AES/GCM",
        "encryption_param": "bb",
    }
    client.send(b"sealed", transaction, metadata=metadata)
    client.commit(transaction)
    (frame,) = client.take_frames(1)
    assert frame.payload == b"sealed"
    assert frame.metadata is not None
    assert {name: frame.metadata.get(name) for name in metadata} == metadata
    assert (frame.metadata["txnid_least_bits"], frame.checksum) == (transaction[1], "ok")


def test_keys_keep_their_order_on_key_shared(client: Transacting, topic: str) -> None:
    # covers TX-9, TX-18
    client.produce(topic)
    for number in (1, 2):
        client.subscribe(topic, "Key_Shared", consumer_id=number)
    a, b = client.begin(topic), client.begin(topic)
    for number in range(12):
        within = (a, b, None)[number % 3]
        client.send(b"%d" % number, within, metadata={"partition_key": f"k{number % 4}"})
    client.commit(b)
    client.abort(a)
    frames = client.take_frames(8)
    for key in range(4):
        values = [int(frame.payload or b"") for frame in frames if int(frame.payload or b"") % 4 == key]
        assert values == sorted(values)
    assert sorted(int(frame.payload or b"") for frame in frames) == [number for number in range(12) if number % 3]
