"""Cumulative acks, and acks inside batches, in transactions."""

from __future__ import annotations

import pytest

from tests.brokers import Broker
from tests.conformance.transactions.transacting import (
    Position,
    Transacting,
    Transaction,
    acking,
    filled,
    refusal,
    remaining,
)
from tests.eventually import eventually

ACCEPTED = (None, "")
ORDERED = pytest.mark.parametrize("kind", ["Exclusive", "Failover"])


def _error(client: Transacting, position: Position, transaction: Transaction | None, **fields: object) -> str | None:
    return refusal(client.ack(position, transaction, "Cumulative", **fields))[0]  # type: ignore[arg-type]


@ORDERED
def test_a_cumulative_ack_moves_the_cursor_at_the_commit(client: Transacting, kind: str) -> None:
    # covers TX-13
    topic, positions, transaction = acking(client, kind)
    assert _error(client, positions[1], transaction) is None
    assert _error(client, positions[3], transaction) is None
    assert (client.cursor(topic), client.backlog(topic)) == ((-1, "[]"), 6)
    client.commit(transaction)
    assert eventually(lambda: client.cursor(topic) == (3, "[]"))
    client.redeliver()
    assert client.take(2) == [b"4", b"5"]


@ORDERED
def test_conflicts_of_cumulative_acks(client: Transacting, kind: str) -> None:
    # covers TX-13
    topic, positions = filled(client, kind)
    a, b = client.begin(subscriptions={topic: "s"}), client.begin(subscriptions={topic: "s"})
    assert _error(client, positions[2], a) is None
    refused = [(positions[1], a), (positions[2], a), (positions[1], b), (positions[4], b)]
    assert [_error(client, *each) for each in refused] == ["TransactionConflict"] * 4
    assert _error(client, positions[3], a) is None
    for position, transaction in ((positions[1], b), (positions[5], b), (positions[0], a)):
        assert refusal(client.ack(position, transaction)) == ACCEPTED
    client.abort(a)
    assert _error(client, positions[4], b) is None
    client.commit(b)
    assert eventually(lambda: client.cursor(topic)[0] >= 4)


def test_a_cumulative_ack_below_what_is_acknowledged_conflicts(client: Transacting) -> None:
    # covers TX-13
    topic, positions = filled(client, "Exclusive")
    assert _error(client, positions[1], None) is None
    transaction = client.begin(subscriptions={topic: "s"})
    for position in positions[:2]:
        assert _error(client, position, transaction) == "TransactionConflict"
    assert _error(client, positions[2], transaction) is None
    client.abort(transaction)


def test_a_pending_cumulative_ack_hides_nothing(client: Transacting) -> None:
    # covers TX-13
    _, positions, transaction = acking(client, "Exclusive")
    _error(client, positions[3], transaction)
    client.redeliver()
    assert client.take(6) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    client.abort(transaction)
    client.raw.expect_no_message()
    client.redeliver()
    assert client.take(6)[:2] == [b"0", b"1"]


def test_a_plain_cumulative_ack_beyond_pending_ones_wins(client: Transacting) -> None:
    # covers TX-15
    topic, positions = filled(client, "Exclusive")
    one, two = client.begin(subscriptions={topic: "s"}), client.begin(subscriptions={topic: "s"})
    client.ack(positions[1], one)
    _error(client, positions[2], two)
    assert _error(client, positions[4], None) is None
    assert eventually(lambda: client.cursor(topic)[0] == 4)
    client.abort(one)
    client.commit(two)
    client.raw.expect_no_message()
    assert client.cursor(topic) == (4, "[]")


def test_a_cumulative_ack_on_shared_is_ignored(client: Transacting) -> None:
    # covers TX-13
    topic, positions, transaction = acking(client, "Shared")
    assert refusal(client.ack(positions[3], transaction, "Cumulative")) == ACCEPTED
    client.commit(transaction)
    assert (client.cursor(topic), client.backlog(topic)) == ((-1, "[]"), 6)


def _batch(broker: Broker, kind: str = "Shared", size: int = 4) -> tuple[Transacting, str, Position]:
    client = Transacting(broker)
    topic = broker.topic()
    client.produce(topic)
    position = client.send_batch(size)
    client.subscribe(topic, kind)
    client.raw.expect_messages(1)
    return client, topic, position


def _left(client: Transacting, topic: str) -> list[list[int] | None]:
    """The bit sets with which a new consumer gets the messages."""
    client.close_consumer()
    client.subscribe(topic)
    client.raw.barrier()
    frame = client.raw.next_frame(1.0)
    assert frame is None or frame.type == "MESSAGE", frame
    client.raw.expect_no_message()
    return [] if frame is None else [frame.fields.get("ack_set")]


def test_messages_of_one_batch_in_two_transactions(broker: Broker) -> None:
    # covers TX-14
    client, topic, position = _batch(broker)
    a, b = client.begin(subscriptions={topic: "s"}), client.begin(subscriptions={topic: "s"})

    def error(transaction: Transaction | None, *indexes: int) -> str | None:
        return refusal(client.ack(position, transaction, ack_set=remaining(4, *indexes), batch_size=4))[0]

    assert error(a, 0) is None
    assert error(b, 1) is None
    assert [error(b, 0), error(b, 0, 2), error(a, 1)] == ["TransactionConflict"] * 3
    assert refusal(client.ack(position, b))[0] == "TransactionConflict"
    assert error(a, 3) is None
    client.commit(a)
    client.abort(b)
    assert client.take_frames(1)[0]["ack_set"] == remaining(4, 0, 3)
    assert error(None, 1) is None
    c = client.begin(subscriptions={topic: "s"})
    assert error(c, 1) == "TransactionConflict"
    assert error(c, 2) is None
    client.commit(c)
    assert eventually(lambda: client.cursor(topic) == (0, "[]"))


def test_acknowledged_messages_of_a_batch_conflict(broker: Broker) -> None:
    # covers TX-14
    client, topic, position = _batch(broker)
    client.ack(position, ack_set=remaining(4, 0), batch_size=4)
    transaction = client.begin(subscriptions={topic: "s"})

    def error(*indexes: int) -> str | None:
        return refusal(client.ack(position, transaction, ack_set=remaining(4, *indexes), batch_size=4))[0]

    assert [error(0), error(0, 1), error(1)] == ["TransactionConflict", "TransactionConflict", None]
    client.commit(transaction)
    assert _left(client, topic) == [remaining(4, 0, 1)]


def test_a_plain_ack_of_the_whole_batch_wins(broker: Broker) -> None:
    # covers TX-15, TX-14
    client, topic, position = _batch(broker)
    a, b = client.begin(subscriptions={topic: "s"}), client.begin(subscriptions={topic: "s"})
    client.ack(position, a, ack_set=remaining(4, 0), batch_size=4)
    client.ack(position, b, ack_set=remaining(4, 1), batch_size=4)
    assert refusal(client.ack(position)) == ACCEPTED
    assert eventually(lambda: client.cursor(topic) == (0, "[]"))
    client.commit(a)
    client.abort(b)
    client.raw.expect_no_message()


def test_a_cumulative_ack_inside_a_batch(broker: Broker) -> None:
    # covers TX-13, TX-14
    client, topic, position = _batch(broker, "Exclusive")
    a, b = client.begin(subscriptions={topic: "s"}), client.begin(subscriptions={topic: "s"})

    def error(transaction: Transaction, last: int) -> str | None:
        bits = remaining(4, *range(last + 1))
        return refusal(client.ack(position, transaction, "Cumulative", ack_set=bits, batch_size=4))[0]

    assert error(a, 1) is None
    assert [error(a, 0), error(a, 1), error(b, 2)] == ["TransactionConflict"] * 3
    assert error(a, 2) is None
    client.commit(a)
    client.redeliver()
    assert client.take_frames(1)[0]["ack_set"] == remaining(4, 0, 1, 2)
    client.abort(b)


def test_a_cumulative_ack_goes_on_inside_a_batch_where_another_ended(broker: Broker) -> None:
    # covers TX-13, TX-14
    client, topic, position = _batch(broker, "Exclusive")
    a, b, c = (client.begin(subscriptions={topic: "s"}) for _ in range(3))

    def error(transaction: Transaction, last: int) -> str | None:
        bits = remaining(4, *range(last + 1))
        return refusal(client.ack(position, transaction, "Cumulative", ack_set=bits, batch_size=4))[0]

    assert error(a, 0) is None
    assert error(b, 1) == "TransactionConflict"
    client.commit(a)
    assert error(b, 1) is None
    assert refusal(client.ack(position, c, "Cumulative"))[0] == "TransactionConflict"
    client.commit(b)
    assert [error(c, 1), error(c, 2)] == [None, None]
    client.commit(c)
    assert _left(client, topic) == [remaining(4, 0, 1, 2)]
