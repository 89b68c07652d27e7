"""Smallest forms of what the simulation found."""

from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.message_lifetime import expire_by_time
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topics import lifecycle, policy_changes
from spark_pulsar.ledger.state.durable_state import CounterSet
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.policies.effective_policies import (
    BACKLOG_EVICTION,
    DESTINATION_STORAGE,
    MESSAGE_AGE,
    BacklogQuota,
)
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import command_frame, payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, ServerError
from tests.unit.broker.world import START_MS, TOPIC, World, entry


def test_seek_by_time_while_ledgers_are_trimmed() -> None:
    # covers CUR-12: the search counted entries from a front that had moved, and skipped some
    world = World(ledger_max_entries=4, ledger_min_age_ms=-1, cache_bytes=0)
    client = world.connect()
    client.open_producer()
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
    world.disk_is_slow = False
    world.happen([])
    assert 1 not in world.core.topics["persistent://public/default/t"].ledger.ledgers, "the first ledger is trimmed"
    client.take_all()
    client.open_consumer(permits=100, subscription_type=CommandSubscribe.Shared)
    assert client.messages() == ["5", "6", "7", "8"]


def test_an_exceeded_age_quota_is_taken_away() -> None:
    # covers BQ-2: the core looked at the age again and again in one turn, for ever
    world = World(cache_bytes=0)
    client = world.connect()
    client.open_producer()
    client.open_consumer()
    client.publish(1, entry("0", START_MS))
    quota = BacklogQuota(-1, 1, BACKLOG_EVICTION).to_json()
    namespace, member = "public/default", policy_table.BACKLOG_QUOTAS
    world.disk_is_slow = True
    world.ask(lambda core: policy_changes.set_of_namespace(core, namespace, member, {MESSAGE_AGE: quota}))
    world.now_ms += 10
    world.happen([])
    world.sync()
    assert world.reads, "the oldest entry is being read"
    world.now_ms += 5_000
    world.ask(lambda core: policy_changes.set_of_namespace(core, namespace, member, {}))
    world.sync()
    world.serve_reads()
    world.disk_is_slow = False
    world.advance(5_000)
    assert world.core.topics["persistent://public/default/t"].subscriptions["s"].backlog == 1


def test_a_topic_goes_while_a_producer_waits_for_its_name() -> None:
    # covers PR-2: the producer joined the topic that was gone, and its first SEND ended the broker
    world = World()
    holder, waiting = world.connect(), world.connect()
    holder.open_producer()
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
    owner, waiting = world.connect(), world.connect()
    owner.open_consumer()
    waiting.send(requests.subscribe(7, TOPIC, "s", 1))
    assert owner.take().type == BaseCommand.PING, "the broker asks whether the old connection is alive"
    world.ask(lambda core: lifecycle.delete(core, core.topics[TOPIC]))
    world.advance(6_000)
    assert waiting.expect(BaseCommand.ERROR).error == ServerError.MetadataError
    waiting.open_consumer()
    assert world.state.topics_by_name[TOPIC].cursors.keys() == {"s"}


def test_expiring_goes_on_behind_a_ledger_that_was_trimmed_meanwhile() -> None:
    # covers TTL-8: the ledger it wanted to look into was gone, and it ended without having expired anything
    world = World(ledger_max_entries=1, ledger_min_age_ms=-1, cache_bytes=0)
    client = world.connect()
    client.open_producer()
    client.open_consumer(permits=1, subscription_type=CommandSubscribe.Shared)
    for number in range(3):
        client.publish(1, entry(str(number)), first=number)
    world.now_ms += 1_000
    done: list[bool] = []
    subscription = world.core.topics[TOPIC].subscriptions["s"]
    first = world.core.topics[TOPIC].ledger.first_position
    world.disk_is_slow = True
    world.ask(lambda core: expire_by_time.older_than(core, subscription, START_MS + 1, lambda: done.append(True)))
    assert world.reads, "it wants to look into the first entry"
    client.ack([first])
    world.disk_is_slow = False
    world.happen([])
    assert done == [True]
    assert subscription.backlog == 0


def test_an_eviction_waits_for_all_of_a_turn_to_be_on_disk() -> None:
    # covers BQ-6: what was too much was on disk and not yet known to be; the core looked again and again, for ever
    world = World()
    quota = BacklogQuota(1_500, -1, BACKLOG_EVICTION).to_json()
    namespace, member = "public/default", policy_table.BACKLOG_QUOTAS
    world.ask(lambda core: policy_changes.set_of_namespace(core, namespace, member, {DESTINATION_STORAGE: quota}))
    world.advance(10)
    client = world.connect()
    client.open_producer()
    subscribe = command_frame(requests.subscribe(9, TOPIC, "s", 1))  # looks at the quota when it is on disk
    client.send_bytes(subscribe + payload_frame(requests.send(1, 0), entry("x" * 1_500)))
    world.advance(10)
    subscription = world.core.topics[TOPIC].subscriptions["s"]
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
    world = World(cache_bytes=0, batch_index_acks=True)
    client = world.connect()
    client.open_producer()
    client.open_consumer()
    client.take_all()
    subscription = world.core.topics[TOPIC].subscriptions["s"]
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
    world.disk_is_slow = False
    world.happen([])
    assert done == [True]
    assert subscription.cursor.batch_set(*position) == 0b100


def test_a_reset_into_a_batch_that_cannot_be_read_passes_nothing_over() -> None:
    # covers CUR-11
    world = World(cache_bytes=0, batch_index_acks=True)
    client = world.connect()
    client.open_producer()
    client.open_consumer()
    client.publish(1, entry("batch", batch=3), messages=3)
    subscription = world.core.topics[TOPIC].subscriptions["s"]
    position = subscription.topic.ledger.last_position
    world.disk_is_slow = True
    world.ask(lambda core: cursor_moves.reset_to_position(core, subscription, position, bool, batch_index=2))
    world.serve_reads(fail=True)
    assert subscription.cursor.batch_set(*position) is None
    assert subscription.backlog == 1
