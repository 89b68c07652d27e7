"""Individual acks in a transaction: pending until it ends, and in nobody else's way."""

from __future__ import annotations

import pytest

from tests.brokers import Broker
from tests.conformance.transactions.transacting import Transacting, acking, filled, refusal
from tests.eventually import eventually
from tests.raw import Frame

ACCEPTED = (None, "")


def _conflict(answer: Frame) -> bool:
    return answer.fields.get("error") == "TransactionConflict"


def _entries(frames: list[Frame]) -> list[tuple[int, int]]:
    """(entry id, redelivery count) of messages."""
    return sorted((frame.position[1], frame.fields.get("redelivery_count", 0)) for frame in frames)


def test_a_commit_acknowledges(client: Transacting) -> None:
    # covers TX-12
    topic, positions, transaction = acking(client)
    answer = client.ack([positions[1], positions[3]], transaction)
    assert set(answer.fields) == {"consumer_id", "request_id"}
    assert client.cursor(topic) == (-1, "[]")
    subscription = client.stats(topic)["subscriptions"]["s"]
    assert (subscription["msgBacklog"], subscription["unackedMessages"]) == (6, 4)
    client.commit(transaction)
    assert eventually(lambda: client.cursor(topic) == (-1, "[(0..1],(2..3]]"))
    assert client.backlog(topic) == 4
    client.ack(positions[0])
    assert eventually(lambda: client.cursor(topic) == (1, "[(2..3]]"))


def test_an_abort_redelivers_on_shared(client: Transacting) -> None:
    # covers TX-12
    topic, positions, transaction = acking(client)
    client.ack([positions[0], positions[2]], transaction)
    client.raw.expect_no_message()
    client.abort(transaction)
    assert _entries(client.take_frames(2)) == [(0, 1), (2, 1)]
    assert client.stats(topic)["subscriptions"]["s"]["unackedMessages"] == 6


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_an_abort_redelivers_all_on_a_subscription_in_order(client: Transacting, kind: str) -> None:
    # covers TX-12
    _, positions, transaction = acking(client, kind)
    client.ack([positions[0], positions[2]], transaction)
    client.redeliver()
    assert [entry for entry, _ in _entries(client.take_frames(4))] == [1, 3, 4, 5]
    client.abort(transaction)
    assert client.take(6) == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_what_is_pending_conflicts(client: Transacting) -> None:
    # covers TX-12
    topic, positions = filled(client)
    a, b = client.begin(subscriptions={topic: "s"}), client.begin(subscriptions={topic: "s"})
    assert refusal(client.ack(positions[0], a)) == ACCEPTED
    for transaction in (a, b):
        error, message = refusal(client.ack(positions[0], transaction))
        assert error == "TransactionConflict"
        assert f"Transaction:({transaction[0]},{transaction[1]}) try to ack message:" in message
        assert message.endswith("in pending ack status.")
    client.abort(a)
    assert refusal(client.ack(positions[0], b)) == ACCEPTED
    client.commit(b)
    assert eventually(lambda: client.cursor(topic)[0] == 0)


def test_an_ack_of_several_of_which_one_conflicts_does_nothing(client: Transacting) -> None:
    # covers TX-12
    topic, positions = filled(client)
    a, b = client.begin(subscriptions={topic: "s"}), client.begin(subscriptions={topic: "s"})
    client.ack(positions[1], a)
    assert _conflict(client.ack(positions[:3], b))
    assert refusal(client.ack([positions[0], positions[2]], a)) == ACCEPTED
    client.commit(b)
    client.commit(a)
    assert eventually(lambda: client.cursor(topic) == (2, "[]"))


def test_what_is_acknowledged_conflicts(client: Transacting) -> None:
    # covers TX-12
    topic, positions = filled(client)
    client.ack([positions[0], positions[2]])
    transaction = client.begin(subscriptions={topic: "s"})
    for position in (positions[0], positions[2]):
        assert _conflict(client.ack(position, transaction))
    assert refusal(client.ack([], transaction)) == ACCEPTED
    assert refusal(client.ack([positions[3], positions[3]], transaction)) == ACCEPTED
    client.commit(transaction)
    assert eventually(lambda: client.cursor(topic) == (0, "[(1..3]]"))


def test_a_position_without_message_is_taken_into_a_transaction(client: Transacting) -> None:
    # covers TX-12
    topic, positions = filled(client)
    # Aborted: 4.0.8 drops, by the hash of the ledger id, what else a transaction acknowledged with such a position.
    transaction = client.begin(subscriptions={topic: "s"})
    assert refusal(client.ack((positions[0][0], 1_000), transaction)) == ACCEPTED
    client.abort(transaction)
    assert client.cursor(topic) == (-1, "[]")


def test_a_plain_ack_wins(client: Transacting) -> None:
    # covers TX-15
    topic, positions, transaction = acking(client)
    client.ack([positions[0], positions[1]], transaction)
    assert refusal(client.ack(positions[0])) == ACCEPTED
    assert eventually(lambda: client.cursor(topic)[0] == 0)
    client.abort(transaction)
    assert _entries(client.take_frames(1)) == [(1, 1)]
    assert client.cursor(topic) == (0, "[]")


def test_redelivery_leaves_pending_entries_out(client: Transacting) -> None:
    # covers TX-15
    _, positions, transaction = acking(client)
    client.ack([positions[0], positions[2]], transaction)
    client.redeliver()
    assert _entries(client.take_frames(4)) == [(1, 1), (3, 1), (4, 1), (5, 1)]
    named = [{"ledgerId": ledger_id, "entryId": entry_id} for ledger_id, entry_id in positions[:2]]
    client.raw.send("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=1, message_ids=named)
    assert _entries(client.take_frames(1)) == [(1, 2)]
    client.abort(transaction)
    assert _entries(client.take_frames(2)) == [(0, 1), (2, 1)]


def test_the_end_of_a_consumer_leaves_its_pending_acks(client: Transacting) -> None:
    # covers TX-15
    topic, positions, transaction = acking(client)
    client.ack([positions[0], positions[3]], transaction)
    client.close_consumer()
    client.subscribe(topic)
    assert [entry for entry, _ in _entries(client.take_frames(4))] == [1, 2, 4, 5]
    client.commit(transaction)
    assert eventually(lambda: client.cursor(topic) == (0, "[(2..3]]"))


def test_an_abort_without_a_consumer(client: Transacting) -> None:
    # covers TX-12
    topic, positions, transaction = acking(client)
    client.ack([positions[0], positions[3]], transaction)
    client.close_consumer()
    client.abort(transaction)
    client.subscribe(topic)
    assert client.raw.expect_messages(6)
    client.raw.expect_no_message()


def test_another_consumer_of_a_shared_subscription_acknowledges(client: Transacting) -> None:
    # covers TX-12
    topic, positions = filled(client)
    client.subscribe(topic, consumer_id=2)
    transaction = client.begin(subscriptions={topic: "s"})
    assert refusal(client.ack(positions[0], transaction, consumer_id=2)) == ACCEPTED
    client.commit(transaction)
    assert eventually(lambda: client.cursor(topic)[0] == 0)


def test_an_ack_of_what_was_never_sent(client: Transacting, topic: str) -> None:
    # covers TX-12
    client.produce(topic)
    positions = [client.send(b"%d" % number) for number in range(4)]
    client.subscribe(topic, permits=1)
    assert client.take(1) == [b"0"]
    transaction = client.begin(subscriptions={topic: "s"})
    assert refusal(client.ack(positions[2], transaction)) == ACCEPTED
    client.raw.send("FLOW", consumer_id=1, messagePermits=10)
    assert client.take(2) == [b"1", b"3"]
    client.abort(transaction)
    assert client.take(1) == [b"2"]


def test_two_subscriptions_and_a_message_in_one_transaction(broker: Broker, client: Transacting) -> None:
    # covers TX-6
    inputs, output = broker.topic(), broker.topic()
    client.produce(inputs)
    position = client.send(b"input")
    for number, name in enumerate(("one", "two"), 1):
        client.subscribe(inputs, name=name, consumer_id=number)
    assert client.take(2) == [b"input", b"input"]
    client.produce(output, 2)
    client.subscribe(output, consumer_id=3)
    for action in ("ABORT", "COMMIT"):
        transaction = client.begin(output)
        for number, name in enumerate(("one", "two"), 1):
            client.add_subscription(transaction, inputs, name)
            assert refusal(client.ack(position, transaction, consumer_id=number)) == ACCEPTED
        client.send(b"output", transaction, 2)
        assert refusal(client.end(transaction, action)) == ACCEPTED
        frames = client.take_frames(2 if action == "ABORT" else 1)
        assert [frame.payload for frame in frames] == ([b"input"] * 2 if action == "ABORT" else [b"output"])
    assert eventually(lambda: [client.cursor(inputs, name)[0] for name in ("one", "two")] == [0, 0])


def test_acks_on_a_topic_that_is_not_persistent_are_refused(broker: Broker, client: Transacting) -> None:
    # covers TX-12
    topic = broker.topic().replace("persistent", "non-persistent")
    client.subscribe(topic)
    transaction = client.begin()
    assert client.ack((0, 0), transaction)["error"] == "NotAllowedError"
    client.abort(transaction)
