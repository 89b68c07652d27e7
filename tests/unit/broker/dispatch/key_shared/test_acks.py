"""Acks of entries that lie about, as Key_Shared consumers send them."""

from __future__ import annotations

import pytest

from spark_pulsar.broker.dispatch.key_shared.dispatcher import KeySharedDispatcher
from spark_pulsar.broker.entities.consumer import Consumer
from spark_pulsar.broker.turn.events import AcksReceived
from spark_pulsar.model.positions.singles import Singles
from spark_pulsar.wire.protocol.acks import PlainAck
from tests.unit.broker.key_sharing import join, keyed, publish
from tests.unit.broker.world import TOPIC, World, positions_of


def test_an_ack_of_one_entry_too_many_looks_for_that_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers ACK-1: any consumer may ack what another holds; a copy of an ack must not look at all for each id
    world = World()
    client, first, second = world.connect(), world.connect(), world.connect()
    client.open_producer()
    join(first, "c1", permits=1_000)
    join(second, "c2", permits=1_000)
    publish(client, *(keyed(f"k{number % 50}") for number in range(200)))
    mine, theirs = (positions_of(each.deliveries()) for each in (first, second))
    looked: list[tuple[int, int]] = []
    release = KeySharedDispatcher._release

    def noting(self: KeySharedDispatcher, consumer: Consumer, ledger_id: int, low: int, high: int) -> int:
        looked.append((low, high))
        return release(self, consumer, ledger_id, low, high)

    monkeypatch.setattr(KeySharedDispatcher, "_release", noting)
    extra = theirs[0].entry_id
    ids = sorted([*(position.entry_id for position in mine), extra])
    world.happen([AcksReceived(first.session_id, PlainAck(1, False, Singles(1, ids), None))])
    assert set(looked) == {(extra, extra + 1)}
    unacked = [each.unacked for each in world.core.topics[TOPIC].subscriptions["s"].consumers]
    assert sorted(unacked) == [0, len(theirs) - 1]
