"""Smallest forms of what the simulation found about transactions."""

from __future__ import annotations

from typing import Any

import pytest

from spark_pulsar.broker.message_lifetime import expire_by_time
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topics import policy_changes
from spark_pulsar.broker.turn.effects import SendMessages
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import DESTINATION_STORAGE, PRODUCER_EXCEPTION, BacklogQuota
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from tests.unit.broker.compacting import compact, compacted_view, keyed
from tests.unit.broker.transacting import ON, abort, ack_in, begin, publish_in, ready
from tests.unit.broker.world import START_MS, TOPIC, Client, World, entry, payloads, positions_of

SMALL: dict[str, Any] = {"ledger_max_entries": 1, "ledger_min_age_ms": -1}


def with_an_entry_to_lose() -> tuple[World, Client]:
    """A topic with an entry of an open transaction, and a plain one behind it, each in a ledger of its own."""
    world = World(**ON, **SMALL)
    client = world.connect()
    ready(client, permits=10)
    publish_in(client, begin(client), "lost")
    client.publish(1, entry("plain"), first=1)
    client.take_all()
    return world, client


@pytest.mark.parametrize("truncates", [False, True], ids=["trimmed", "truncated"])
def test_a_topic_goes_on_after_a_transaction_lost_its_entries_there(*, truncates: bool) -> None:
    # covers TX-9, TX-26: its time-out did not concern the topic any more, which was held up until a restart
    world, client = with_an_entry_to_lose()
    if truncates:
        world.ask(lambda core: cursor_moves.truncate(core, core.topics[TOPIC]))
    else:
        world.ask(lambda core: cursor_moves.clear_backlog(core, core.topics[TOPIC].subscriptions["s"]))
        client.publish(1, entry("another"), first=2)
        client.take_all()
    assert world.state.transactions
    assert not world.state.topics_by_name[TOPIC].open_transactions
    client.publish(1, entry("after"), first=3)
    deliveries = [each for each in client.take_all() if isinstance(each, SendMessages)]
    assert [text for each in deliveries for text in payloads(each)][-1:] == ["after"]


def test_the_transaction_that_lost_its_entries_holds_the_topic_until_that_is_on_disk() -> None:
    # covers TX-9, TX-26
    world, _ = with_an_entry_to_lose()
    world.disk_is_slow = True
    world.ask(lambda core: cursor_moves.truncate(core, core.topics[TOPIC]))
    topic = world.core.topics[TOPIC]
    assert topic.max_read_position < (1, 0)
    world.sync()
    assert topic.max_read_position == topic.last_add_confirmed


def test_a_transaction_that_lost_its_entries_and_ends_before_that_is_on_disk() -> None:
    # covers TX-7, TX-26: the topic was held up until a restart
    world, _ = with_an_entry_to_lose()
    world.disk_is_slow = True
    world.ask(lambda core: cursor_moves.truncate(core, core.topics[TOPIC]))
    world.now_ms += 60_001
    world.happen([])
    assert not world.state.transactions
    world.sync()
    topic = world.core.topics[TOPIC]
    assert topic.max_read_position == topic.last_add_confirmed


def test_expiry_by_time_passes_over_markers() -> None:
    # covers TTL-8, TX-10: a marker has the broker's time, and older messages may come behind it
    world = World(**ON)
    client = world.connect()
    client.open_producer()
    client.open_consumer()
    client.publish(1, entry("old", START_MS - 10_000))
    client.take_all()
    txn_id = begin(client)
    client.send(requests.add_partitions(client.request_id(), txn_id, [TOPIC]))
    client.take_all()
    abort(client, txn_id)
    client.publish(1, entry("as old", START_MS - 10_000), first=1)
    client.publish(1, entry("new", START_MS), first=2)
    client.take_all()
    subscription = world.core.topics[TOPIC].subscriptions["s"]
    world.ask(lambda core: expire_by_time.older_than(core, subscription, START_MS - 5_000, lambda: None))
    assert subscription.backlog == 1


def test_a_marker_counts_for_the_size_of_a_backlog() -> None:
    # covers BQ-1, TX-20: the next look at the quota came late
    world = World(**ON)
    client = world.connect()
    client.open_producer()
    client.open_consumer()
    client.publish(1, entry("waits"))
    client.take_all()
    backlog = world.core.topics[TOPIC].ledger.size_bytes
    quota = {DESTINATION_STORAGE: BacklogQuota(backlog + 40, -1, PRODUCER_EXCEPTION).to_json()}
    world.ask(lambda core: policy_changes.set_of_namespace(core, "public/default", policy_table.BACKLOG_QUOTAS, quota))
    txn_id = begin(client)
    client.send(requests.add_partitions(client.request_id(), txn_id, [TOPIC]))
    abort(client, txn_id)
    assert world.core.topics[TOPIC].ledger.size_bytes > backlog + 40, "the invariants have looked at the quota"


def test_a_skip_counts_entries_whose_ack_is_pending() -> None:
    # covers TX-16, CUR-14: as in Apache Pulsar; it passed over one entry more for each
    world = World(**ON)
    client = world.connect()
    client.open_producer()
    client.publish(1, *(entry(str(index)) for index in range(4)))
    client.take_all()
    client.open_consumer(permits=10, subscription_type=1)
    client.take_all()
    txn_id = begin(client)
    ack_in(client, txn_id, Position(1, 0))
    world.ask(lambda core: cursor_moves.skip(core, core.topics[TOPIC].subscriptions["s"], 2))
    assert world.state.topics_by_name[TOPIC].cursors["s"].mark_delete == (1, 1)
    client.send(requests.redeliver(1))
    assert [position.entry_id for position in positions_of(client.deliveries())] == [2, 3]


def test_what_is_left_of_trimmed_ledgers_is_read_before_an_aborted_entry() -> None:
    # covers CMP-C4, TX-19: the reader's cursor passed over the aborted entry, and what came before it
    world = World(**ON, ledger_max_entries=2, ledger_min_age_ms=-1)
    client = world.connect()
    ready(client, permits=10)
    client.publish(1, keyed("a", "a1"), keyed("b", "b1"))
    client.take_all()
    aborted = begin(client)
    publish_in(client, aborted, "x", first=2)
    client.publish(1, keyed("c", "c1"), first=3)
    client.take_all()
    abort(client, aborted)
    compact(world)
    client.ack([Position(1, 0), Position(1, 1)])
    assert next(iter(world.state.topics_by_name[TOPIC].ledger.ledgers)) == 2, "the first ledger is trimmed"
    assert [texts for _, texts in compacted_view(world)] == [["a1"], ["b1"], ["c1"]]
