"""Smallest forms of what the simulation found."""

from typing import Any

import pytest

from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.message_lifetime import expire_by_time
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topics import lifecycle
from spark_pulsar.broker.turn.effects import SendMessages
from spark_pulsar.ledger.state.durable_state import CounterSet
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import (
    BACKLOG_EVICTION,
    DESTINATION_STORAGE,
    MESSAGE_AGE,
    PRODUCER_EXCEPTION,
    BacklogQuota,
)
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import command_frame, payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, ServerError
from tests.unit.broker.compacting import compact, compacted_view, keyed
from tests.unit.broker.transacting import ON, abort, ack_in, begin, publish_in, ready
from tests.unit.broker.world import START_MS, TOPIC, Client, World, entry, payloads, positions_of, producing


def test_seek_by_time_while_ledgers_are_trimmed() -> None:
    # covers CUR-12: the search counted entries from a front that had moved, and skipped some
    world, client = producing(ledger_max_entries=4, ledger_min_age_ms=-1, cache_bytes=0)
    for number in range(8):
        client.publish(1, entry(str(number), START_MS + number), first=number)
    client.take_all()
    client.open_consumer(permits=100, subscription_type=CommandSubscribe.Shared)
    client.take_all()
    client.ack([Position(1, number) for number in range(4)])
    world.disk_is_slow = True
    client.send(requests.seek_to_time(9, 1, START_MS + 5))
    world.sync()
    assert world.reads, "the search waits for an entry"
    client.publish(1, entry("8", START_MS + 8), first=8)
    world.quicken()
    assert 1 not in world.core.topics["persistent://public/default/t"].ledger.ledgers, "the first ledger is trimmed"
    client.take_all()
    client.open_consumer(permits=100, subscription_type=CommandSubscribe.Shared)
    assert client.messages() == ["5", "6", "7", "8"]


def test_an_exceeded_age_quota_is_taken_away() -> None:
    # covers BQ-2: the core looked at the age again and again in one turn, for ever
    world, client = producing(cache_bytes=0)
    client.open_consumer()
    client.publish(1, entry("0", START_MS))
    quota = BacklogQuota(-1, 1, BACKLOG_EVICTION).to_json()
    world.disk_is_slow = True
    world.set_policy(policy_table.BACKLOG_QUOTAS, {MESSAGE_AGE: quota})
    world.now_ms += 10
    world.happen([])
    world.sync()
    assert world.reads, "the oldest entry is being read"
    world.now_ms += 5_000
    world.set_policy(policy_table.BACKLOG_QUOTAS, {})
    world.sync()
    world.serve_reads()
    world.disk_is_slow = False
    world.advance(5_000)
    assert world.subscription().backlog == 1


def test_a_topic_goes_while_a_producer_waits_for_its_name() -> None:
    # covers PR-2: the producer joined the topic that was gone, and its first SEND ended the broker
    world = World()
    holder, waiting = world.connect_producer(), world.connect()
    waiting.send(requests.producer(7, TOPIC, 1, "p"))
    assert holder.take().type == BaseCommand.PING, "the broker asks whether the old connection is alive"
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))
    world.advance(6_000)
    assert waiting.expect(BaseCommand.ERROR).error == ServerError.ServiceNotReady
    waiting.open_producer()
    waiting.publish(1, entry("0"))
    assert len(waiting.receipts()) == 1


def test_a_topic_goes_while_a_consumer_waits_for_its_subscription() -> None:
    # covers EX-1: the consumer joined the subscription that was gone
    world = World()
    owner, waiting = world.connect_consumer(), world.connect()
    waiting.send(requests.subscribe(7, TOPIC, "s", 1))
    assert owner.take().type == BaseCommand.PING, "the broker asks whether the old connection is alive"
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))
    world.advance(6_000)
    assert waiting.expect(BaseCommand.ERROR).error == ServerError.MetadataError
    waiting.open_consumer()
    assert world.state.topics_by_name[TOPIC].cursors.keys() == {"s"}


def test_expiring_goes_on_behind_a_ledger_that_was_trimmed_meanwhile() -> None:
    # covers TTL-8: the ledger it wanted to look into was gone, and it ended without having expired anything
    world, client = producing(ledger_max_entries=1, ledger_min_age_ms=-1, cache_bytes=0)
    client.open_consumer(permits=1, subscription_type=CommandSubscribe.Shared)
    for number in range(3):
        client.publish(1, entry(str(number)), first=number)
    world.now_ms += 1_000
    done: list[bool] = []
    subscription = world.subscription()
    first = world.core.topics[TOPIC].ledger.first_position
    world.disk_is_slow = True
    world.ask(lambda core: expire_by_time.older_than(core, subscription, START_MS + 1, lambda: done.append(True)))
    assert world.reads, "it wants to look into the first entry"
    client.ack([first])
    world.quicken()
    assert done == [True]
    assert subscription.backlog == 0


def test_an_eviction_waits_for_all_of_a_turn_to_be_on_disk() -> None:
    # covers BQ-6: what was too much was on disk and not yet known to be; the core looked again and again, for ever
    world = World()
    quota = BacklogQuota(1_500, -1, BACKLOG_EVICTION).to_json()
    world.set_policy(policy_table.BACKLOG_QUOTAS, {DESTINATION_STORAGE: quota})
    world.advance(10)
    client = world.connect_producer()
    subscribe = command_frame(requests.subscribe(9, TOPIC, "s", 1))  # looks at the quota when it is on disk
    client.send_bytes(subscribe + payload_frame(requests.send(1, 0), entry("x" * 1_500)))
    world.advance(10)
    subscription = world.subscription()
    assert subscription.backlog == 0, "one entry is more than is left"
    assert world.core.topics[TOPIC].last_add_confirmed == world.core.topics[TOPIC].ledger.last_position


def test_who_waits_for_the_disk_is_told_in_order() -> None:
    # covers ML-5: also when it began to wait while others were told
    world = World()
    heard: list[str] = []

    def first(core: Core) -> None:
        core.append(CounterSet("test", 1))
        core.when_durable(lambda: core.when_durable(lambda: heard.append("third")))
        core.when_durable(lambda: heard.append("second"))

    world.ask(first)
    assert heard == ["second", "third"]


def test_a_reset_into_a_batch_waits_for_it_to_be_on_disk() -> None:
    # covers CUR-11: the batch could not be read yet, and all of it was passed over
    world, client = producing(cache_bytes=0, batch_index_acks=True)
    client.open_consumer()
    client.take_all()
    subscription = world.subscription()
    world.disk_is_slow = True
    client.publish(1, entry("batch", batch=3), messages=3)
    done: list[bool] = []
    position = subscription.topic.ledger.last_position
    world.ask(
        lambda core: cursor_moves.reset_to_position(
            core, subscription, position, lambda: done.append(True), batch_index=2
        )
    )
    world.serve_reads()
    world.quicken()
    assert done == [True]
    assert subscription.cursor.batch_set(*position) == 0b100


def test_a_reset_into_a_batch_that_cannot_be_read_passes_nothing_over() -> None:
    # covers CUR-11
    world, client = producing(cache_bytes=0, batch_index_acks=True)
    client.open_consumer()
    client.publish(1, entry("batch", batch=3), messages=3)
    subscription = world.subscription()
    position = subscription.topic.ledger.last_position
    world.disk_is_slow = True
    world.ask(lambda core: cursor_moves.reset_to_position(core, subscription, position, bool, batch_index=2))
    world.serve_reads(fail=True)
    assert subscription.cursor.batch_set(*position) is None
    assert subscription.backlog == 1


SMALL: dict[str, Any] = {"ledger_max_entries": 1, "ledger_min_age_ms": -1}


def with_an_entry_to_lose() -> tuple[World, Client]:
    """A topic with an entry of an open transaction, and a plain one behind it, each in a ledger of its own."""
    world = World(**ON, **SMALL)
    client = world.connect()
    ready(client, permits=10)
    publish_in(client, begin(client), "lost")
    client.store(1, entry("plain"), first=1)
    return world, client


@pytest.mark.parametrize("truncates", [False, True], ids=["trimmed", "truncated"])
def test_a_topic_goes_on_after_a_transaction_lost_its_entries_there(*, truncates: bool) -> None:
    # covers TX-9, TX-26: its time-out did not concern the topic any more, which was held up until a restart
    world, client = with_an_entry_to_lose()
    if truncates:
        world.ask(lambda core: cursor_moves.truncate(core, core.topics[TOPIC]))
    else:
        world.ask(lambda core: cursor_moves.clear_backlog(core, core.topics[TOPIC].subscriptions["s"]))
        client.store(1, entry("another"), first=2)
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
    world, client = producing(**ON)
    client.open_consumer()
    client.store(1, entry("old", START_MS - 10_000))
    txn_id = begin(client)
    client.send(requests.add_partitions(client.request_id(), txn_id, [TOPIC]))
    client.take_all()
    abort(client, txn_id)
    client.publish(1, entry("as old", START_MS - 10_000), first=1)
    client.store(1, entry("new", START_MS), first=2)
    subscription = world.subscription()
    world.ask(lambda core: expire_by_time.older_than(core, subscription, START_MS - 5_000, lambda: None))
    assert subscription.backlog == 1


def test_a_marker_counts_for_the_size_of_a_backlog() -> None:
    # covers BQ-1, TX-20: the next look at the quota came late
    world, client = producing(**ON)
    client.open_consumer()
    client.store(1, entry("waits"))
    backlog = world.core.topics[TOPIC].ledger.size_bytes
    quota = {DESTINATION_STORAGE: BacklogQuota(backlog + 40, -1, PRODUCER_EXCEPTION).to_json()}
    world.set_policy(policy_table.BACKLOG_QUOTAS, quota)
    txn_id = begin(client)
    client.send(requests.add_partitions(client.request_id(), txn_id, [TOPIC]))
    abort(client, txn_id)
    assert world.core.topics[TOPIC].ledger.size_bytes > backlog + 40, "the invariants have looked at the quota"


def test_a_skip_counts_entries_whose_ack_is_pending() -> None:
    # covers TX-16, CUR-14: as in Apache Pulsar; it passed over one entry more for each
    world, client = producing(**ON)
    client.store(1, *(entry(str(index)) for index in range(4)))
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
    client.store(1, keyed("a", "a1"), keyed("b", "b1"))
    aborted = begin(client)
    publish_in(client, aborted, "x", first=2)
    client.store(1, keyed("c", "c1"), first=3)
    abort(client, aborted)
    compact(world)
    client.ack([Position(1, 0), Position(1, 1)])
    assert next(iter(world.state.topics_by_name[TOPIC].ledger.ledgers)) == 2, "the first ledger is trimmed"
    assert [texts for _, texts in compacted_view(world)] == [["a1"], ["b1"], ["c1"]]
