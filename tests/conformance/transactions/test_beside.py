"""Transactions beside other features: seeking, skipping, expiry, compaction, unloading and the end of topics."""

from __future__ import annotations

import urllib.request
from typing import Any

import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.transactions.transacting import (
    NO_MESSAGE,
    Position,
    Transacting,
    Transaction,
    acking,
    filled,
    refusal,
)
from tests.eventually import eventually

ACCEPTED = (None, "")


def _id(position: Position) -> dict[str, int]:
    return {"ledgerId": position[0], "entryId": position[1]}


def _post(client: Transacting, topic: str, path: str, method: str = "POST", body: Any = None) -> None:
    status, answer = client.broker.rest(method, f"{topic_path(topic)}{path}", body)
    assert status in (200, 204), f"{method} {path}: {status} {answer}"


def _seek(client: Transacting, topic: str, position: Position) -> None:
    """Seeks; the broker closes the consumer, and it comes back."""
    assert client.raw.request("SEEK", consumer_id=1, message_id=_id(position)).type == "SUCCESS"
    client.raw.expect("CLOSE_CONSUMER")
    client.subscribe(topic)


def _mixed(client: Transacting) -> tuple[str, list[Position], Transaction]:
    """p0, then a0 to a2 aborted, their marker, p1, then o0 of an open transaction, and p2 behind it."""
    topic = client.broker.topic()
    client.produce(topic)
    aborted = client.begin(topic)
    positions = [client.send(b"p0"), *(client.send(b"a%d" % number, aborted) for number in range(3))]
    client.abort(aborted)
    positions.append(client.send(b"p1"))
    opened = client.begin(topic)
    positions += [client.send(b"o0", opened), client.send(b"p2")]
    return topic, positions, opened


def test_seeking_to_aborted_and_open_entries(client: Transacting) -> None:
    # covers TX-9, TX-11, TX-16
    topic, positions, opened = _mixed(client)
    client.subscribe(topic)
    assert client.take(2) == [b"p0", b"p1"]
    for position in (positions[1], positions[3]):
        _seek(client, topic, position)
        assert client.take(1) == [b"p1"]
    _seek(client, topic, positions[5])
    client.raw.expect_no_message()
    client.commit(opened)
    assert client.take(2) == [b"o0", b"p2"]


def test_readers_that_begin_at_aborted_and_open_entries(client: Transacting) -> None:
    # covers TX-9, TX-11
    topic, positions, opened = _mixed(client)
    for number, position in ((1, positions[2]), (2, positions[5])):
        client.subscribe(topic, "Exclusive", f"r{number}", number, durable=False, start_message_id=_id(position))
        assert client.last_position(number) == positions[4]
    frames = client.take_frames(1)
    assert (frames[0]["consumer_id"], frames[0].payload) == (1, b"p1")
    client.abort(opened)
    assert sorted((frame["consumer_id"], frame.payload) for frame in client.take_frames(2)) == [(1, b"p2"), (2, b"p2")]


def test_pending_acks_stay_over_a_seek(client: Transacting) -> None:
    # covers TX-16
    topic, positions, transaction = acking(client)
    client.ack([positions[1], positions[3]], transaction)
    _seek(client, topic, positions[0])
    assert client.take(4) == [b"0", b"2", b"4", b"5"]
    client.commit(transaction)
    assert eventually(lambda: client.cursor(topic) == (-1, "[(0..1],(2..3]]"))


def test_an_abort_behind_a_seek(client: Transacting) -> None:
    # covers TX-16
    topic, positions, transaction = acking(client)
    client.ack([positions[1], positions[3]], transaction)
    _seek(client, topic, positions[3])
    assert client.take(2) == [b"4", b"5"]
    client.abort(transaction)
    assert client.take(1) == [b"3"]


@pytest.mark.parametrize("action", ["COMMIT", "ABORT"])
def test_a_cleared_backlog_takes_pending_and_open_entries(client: Transacting, action: str) -> None:
    # covers TX-16, TX-20
    topic, positions = filled(client)
    transaction = client.begin(topic, subscriptions={topic: "s"})
    client.ack([positions[1], positions[3]], transaction)
    client.send(b"open", transaction)
    _post(client, topic, "/subscription/s/skip_all")
    assert eventually(lambda: client.cursor(topic)[0] == 6)
    assert refusal(client.end(transaction, action)) == ACCEPTED
    client.raw.expect_no_message()
    assert eventually(lambda: client.backlog(topic) == 0)


def _read_over(client: Transacting, topic: str, name: str) -> None:
    """A subscription that was sent what it may be: Apache Pulsar passes aborted entries and markers as it reads."""
    client.subscribe(topic, name=name)
    assert client.take(2) == [b"p0", b"p1"]
    client.close_consumer()


def test_skipping_counts_what_is_left(client: Transacting) -> None:
    # covers TX-11, TX-20
    topic, _, opened = _mixed(client)
    _read_over(client, topic, "skips")
    _post(client, topic, "/subscription/skips/skip/1")
    assert eventually(lambda: client.cursor(topic, "skips")[0] == 4)
    _post(client, topic, "/subscription/skips/skip/2")
    assert eventually(lambda: client.cursor(topic, "skips")[0] == 6)
    client.commit(opened)
    client.subscribe(topic, name="skips")
    assert client.take(1) == [b"p2"]


def test_expiry_takes_open_entries(broker: Broker, client: Transacting) -> None:
    # covers TX-20
    topic, _, opened = _mixed(client)
    _post(client, topic, "/subscription/expires", "PUT", {"ledgerId": -1, "entryId": -1})

    def expired() -> bool:
        # The marker is as old as the test only.
        broker.rest("POST", f"{topic_path(topic)}/subscription/expires/expireMessages/1")
        return client.backlog(topic, "expires") == 0

    assert eventually(expired)
    client.commit(opened)
    client.subscribe(topic, name="expires")
    client.raw.expect_no_message()


@pytest.mark.parametrize("action", ["COMMIT", "ABORT"])
def test_the_end_of_a_subscription_ends_its_pending_acks(client: Transacting, action: str) -> None:
    # covers TX-16, TX-26
    topic, positions, transaction = acking(client)
    client.ack([positions[1], positions[3]], transaction)
    assert client.raw.request("UNSUBSCRIBE", consumer_id=1).type == "SUCCESS"
    client.subscribe(topic, consumer_id=2)
    assert client.take(6) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert refusal(client.end(transaction, action)) == ACCEPTED
    assert client.cursor(topic) == (-1, "[]")


def test_messages_by_id_and_examined(broker: Broker, client: Transacting) -> None:
    # covers TX-11, TX-22
    topic, positions, opened = _mixed(client)
    aborted, plain = ("true", "false"), (None, "false")
    expected = [plain, aborted, aborted, aborted, aborted, plain, ("false", "true"), (None, "true")]
    by_id = [f"/ledger/{positions[0][0]}/entry/{entry}" for entry in range(9)]
    examined = [f"/examinemessage?initialPosition=earliest&messagePosition={entry + 1}" for entry in range(8)]
    for paths in (by_id[:8], examined):
        seen = [_headers(broker, topic_path(topic) + path) for path in paths]
        assert [(each.get("x-pulsar-txn-aborted"), each.get("x-pulsar-txn-uncommitted")) for each in seen] == expected
        assert [each.get("x-pulsar-marker-type") for each in seen] == [None] * 4 + ["22"] + [None] * 3
        assert seen[6]["x-pulsar-txnid-least-bits"] == str(opened[1])
    client.commit(opened)
    assert _headers(broker, topic_path(topic) + by_id[8])["x-pulsar-marker-type"] == "21"


def test_peeking_counts_what_is_left(broker: Broker, client: Transacting) -> None:
    # covers TX-11, TX-22
    topic, _, opened = _mixed(client)
    _read_over(client, topic, "peeks")
    seen = [_headers(broker, f"{topic_path(topic)}/subscription/peeks/position/{number}") for number in range(1, 5)]
    assert [each["x-pulsar-message-id"].rpartition(":")[2] for each in seen] == ["0", "5", "6", "7"]
    assert [each["x-pulsar-txn-uncommitted"] for each in seen] == ["false", "false", "true", "true"]
    client.abort(opened)


def _headers(broker: Broker, path: str) -> dict[str, str]:
    with urllib.request.urlopen(broker.admin_url + path, timeout=30) as answer:
        return {name.lower(): value for name, value in answer.headers.items()}


def test_compaction_sees_what_is_committed(broker: Broker, client: Transacting, topic: str) -> None:
    # covers TX-19
    client.produce(topic)

    def keyed(key: str, payload: bytes, transaction: Transaction | None = None) -> None:
        client.send(payload, transaction, metadata={"partition_key": key})

    def compacted(name: str, count: int) -> list[bytes]:
        _post(client, topic, "/compaction", "PUT")
        path = f"{topic_path(topic)}/compaction"
        assert eventually(lambda: broker.rest("GET", path)[1]["status"] == "SUCCESS")
        client.subscribe(topic, "Exclusive", name, read_compacted=True)
        payloads = client.take(count)
        client.close_consumer()
        return payloads

    committed, aborted, opened = (client.begin(topic) for _ in range(3))
    keyed("k1", b"old")
    keyed("k2", b"kept")
    keyed("k1", b"committed", committed)
    keyed("k2", b"aborted", aborted)
    client.commit(committed)
    client.abort(aborted)
    keyed("k3", b"open", opened)
    keyed("k1", b"behind")
    assert compacted("one", 2) == [b"kept", b"committed"]
    client.commit(opened)
    assert compacted("two", 3) == [b"kept", b"open", b"behind"]


def test_unloading_keeps_open_aborted_and_pending(broker: Broker, topic: str) -> None:
    # covers TX-26, TX-17
    client = Transacting(broker)
    client.produce(topic)
    position = client.send(b"acknowledged")
    client.subscribe(topic)
    client.raw.expect_messages(1)
    aborted = client.begin(topic)
    client.send(b"aborted", aborted)
    client.abort(aborted)
    opened = client.begin(topic, subscriptions={topic: "s"})
    client.send(b"open", opened)
    client.ack(position, opened)
    _post(client, topic, "/unload", "PUT")
    client = Transacting(broker)
    assert eventually(lambda: _subscribed(client, topic))
    client.produce(topic)
    client.send(b"plain")
    client.raw.expect_no_message()
    client.commit(opened)
    assert client.take(2) == [b"open", b"plain"]
    assert eventually(lambda: client.backlog(topic) == 2)


def _subscribed(client: Transacting, topic: str) -> bool:
    client.subscribe(topic)
    return True


def test_a_topic_that_was_deleted_is_no_obstacle(broker: Broker, client: Transacting) -> None:
    # covers TX-26
    topic, other = broker.topic(), broker.topic()
    client.produce(topic)
    client.produce(other, 2)
    client.subscribe(other, consumer_id=2)
    transaction = client.begin(topic, other)
    client.send(b"gone", transaction)
    client.send(b"kept", transaction, 2)
    _post(client, topic, "?force=true", "DELETE")
    client.commit(transaction)
    assert client.take(1) == [b"kept"]
    assert broker.rest("GET", f"{topic_path(topic)}/stats")[0] == 404


def test_a_topic_made_again_knows_nothing_of_a_transaction_on_the_old_one(broker: Broker, topic: str) -> None:
    # covers TX-26
    client = Transacting(broker)
    client.produce(topic)
    transaction = client.begin(topic)
    client.send(b"old", transaction)
    _post(client, topic, "?force=true", "DELETE")
    client = Transacting(broker)
    client.produce(topic)
    client.subscribe(topic)
    client.send(b"new")
    assert client.take(1) == [b"new"]
    client.commit(transaction)
    client.send(b"newer")
    assert client.take(1) == [b"newer"]


def test_truncating_takes_open_entries(client: Transacting, topic: str) -> None:
    # covers TX-26
    client.produce(topic)
    client.subscribe(topic)
    transaction = client.begin(topic)
    client.send(b"open", transaction)
    _post(client, topic, "/truncate", "DELETE")
    client.commit(transaction)
    client.raw.expect_no_message()
    client.send(b"new")
    assert client.take(1) == [b"new"]


def test_a_terminated_topic_shows_no_open_entry(broker: Broker, client: Transacting, topic: str) -> None:
    # covers TX-26, TX-10
    client.produce(topic)
    client.subscribe(topic)
    transaction = client.begin(topic, ttl_ms=600_000)
    last = client.send(b"open", transaction)
    status, answer = broker.rest("POST", f"{topic_path(topic)}/terminate")
    assert (status, answer["entryId"]) == (200, last[1])
    client.raw.expect_no_message()
    assert client.last_position() == NO_MESSAGE


@pytest.mark.ours_only(
    "TX-10: a terminated topic gets no marker; Apache Pulsar never answers the end of its transaction"
)
@pytest.mark.parametrize("action", ["COMMIT", "ABORT"])
def test_a_transaction_on_a_terminated_topic_ends(client: Transacting, topic: str, action: str) -> None:
    # covers TX-10, TX-26
    client.produce(topic)
    client.subscribe(topic)
    transaction = client.begin(topic)
    last = client.send(b"open", transaction)
    _post(client, topic, "/terminate")
    assert refusal(client.end(transaction, action)) == ACCEPTED
    assert client.take(1 if action == "COMMIT" else 0) == [b"open"] * (action == "COMMIT")
    assert client.last_position() == (last if action == "COMMIT" else NO_MESSAGE)
