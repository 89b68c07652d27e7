"""Acks in transactions: pending until the end, then acknowledged or redelivered."""

from typing import Any

import pytest

from spark_pulsar.broker.transactions import pending_acks
from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger
from spark_pulsar.ledger.state.cursors.cursor import Cursor
from spark_pulsar.ledger.state.cursors.pending_acks import PendingAcks, sized
from spark_pulsar.model.errors import ServerError
from spark_pulsar.model.positions.ids import EARLIEST, Position, TransactionId
from spark_pulsar.wire.protocol import requests
from tests.unit.broker.costs import instructions
from tests.unit.broker.transacting import ON, ack_in, begin, end
from tests.unit.broker.world import TOPIC, Client, World, entry, positions_of, producing

SHARED, EXCLUSIVE, KEY_SHARED = 1, 0, 3


def opened(kind: int = SHARED, entries: int = 6, **config: Any) -> tuple[World, Client]:
    """A world whose consumer holds that many entries."""
    world, client = producing(**ON, **config)
    client.store(1, *(entry(f"m{index}") for index in range(entries)))
    client.open_consumer(permits=100, subscription_type=kind)
    assert len(positions_of(client.deliveries())) == entries
    return world, client


def cursor_of(world: World) -> Any:
    return world.state.topics_by_name[TOPIC].cursors["s"]


def ids(*entry_ids: int) -> list[Position]:
    return [Position(1, entry_id) for entry_id in entry_ids]


def redeliver(client: Client) -> list[int]:
    """Entries that come again when the consumer asks for all."""
    client.send(requests.redeliver(1))
    return [position.entry_id for position in positions_of(client.deliveries())]


@pytest.mark.parametrize("wrong", [TransactionId(0, 99), TransactionId(9, 0)])
def test_an_ack_in_a_transaction_that_is_not_open_is_refused(wrong: TransactionId) -> None:
    # covers TX-12
    world, client = opened()
    answer = ack_in(client, wrong, *ids(0))
    assert answer.error == ServerError.TransactionNotFound
    assert cursor_of(world).pending is None


def test_a_reader_acks_in_no_transaction() -> None:
    # covers TX-12
    _, client = opened()
    client.open_consumer("r", 2, permits=9, durable=False)
    client.take_all()
    assert ack_in(client, begin(client), *ids(0), consumer_id=2).error == ServerError.NotAllowedError


def test_the_limit_of_pending_acks(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers TX-24
    monkeypatch.setattr(pending_acks, "MAX_PENDING_ACKS", 2)
    _, client = opened()
    txn_id = begin(client)
    assert not ack_in(client, txn_id, *ids(0, 2)).HasField("error")
    assert ack_in(client, txn_id, *ids(4)).error == ServerError.NotAllowedError
    end(client, txn_id)
    assert not ack_in(client, begin(client), *ids(4)).HasField("error")


def test_an_ack_costs_by_its_own_parts() -> None:
    # covers TX-12, TX-14
    def cost(others: int, parts_of_others: int) -> int:
        pending, cursor = PendingAcks(), Cursor(ManagedLedger(1), "s", EARLIEST, cursor_id=1)
        cursor.pending = pending
        for number in range(others):
            first = 1_000 + number * parts_of_others
            pending.add(
                TransactionId(0, number),
                (),
                [(1, each, sized(0b1110, 4)) for each in range(first, first + parts_of_others)],
            )
        mine = [(1, each, sized(0b1101, 4)) for each in range(10)]

        def ack() -> None:
            assert pending.first_conflict([(1, 20, 21)], mine) is None
            pending.add(TransactionId(1, 0), [(1, 20, 21)], mine)
            assert cursor.sets_to_send(1, range(3)) == {0: 0b1101, 1: 0b1101, 2: 0b1101}
            assert pending.cumulative() is None
            pending.remove(TransactionId(1, 0))

        return instructions(ack)

    beside_few = cost(2, 2)
    assert cost(200, 50) < 1.2 * beside_few, "however many there are beside it"


def test_parts_of_a_batch_that_is_told_with_two_sizes() -> None:
    # covers TX-14
    pending, one, other = PendingAcks(), TransactionId(0, 1), TransactionId(0, 2)
    pending.add(one, (), [(1, 0, sized(0b1110, 4))])
    pending.add(one, (), [(1, 0, sized(0b110111, 6))])
    assert pending.of[one].batch_sets == {(1, 0): sized(0b110110, 6)}
    pending.add(other, (), [(1, 0, sized(0b1001, 4))])
    assert (pending.batch_sets, pending.parts(1, 0), list(pending.ranges)) == ({1: {0: 0b110000}}, 0b1111, [])
    pending.remove(one)
    assert (pending.batch_sets, pending.parts(1, 0)) == ({1: {0: 0b1001}}, 0b0110)
    pending.add(one, (), [(1, 0, sized(0b0110, 4))])
    assert (pending.batch_sets, list(pending.ranges)) == ({1: {0: 0}}, [(1, 0, 1)])
    pending.remove(other)
    assert (pending.batch_sets, list(pending.ranges)) == ({1: {0: 0b0110}}, [])
    pending.remove(one)
    assert (pending.batch_sets, pending.parts(1, 0), pending.of) == ({}, 0, {})
