"""Topics: which exist, which come into being when used, partitions, deletion (section 1 and 12 of the rules).

A `Topic` is a topic in use: its durable part from the state, and who is connected to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spark_pulsar.ledger.cursor_records import CursorCreated
from spark_pulsar.ledger.managed import LedgerInfo, ManagedLedger, RollLimits
from spark_pulsar.ledger.records import PartitionedTopicDeleted, PartitionedTopicSet, TopicCreated
from spark_pulsar.model.errors import NotAllowed, ServiceNotReady, TopicNotFound
from spark_pulsar.model.ids import EARLIEST, Position
from spark_pulsar.model.names import TopicName

from . import (
    access,
    bounds,
    compaction,
    deduplication,
    delayed,
    non_persistent,
    partitions,
    policies,
    producers,
    retention,
)
from .persistence import check_copies
from .rates import Meter
from .retention import NOTHING_HELD
from .schemas import registry
from .subscriptions import Subscription, check_subscription_name, disconnect

if TYPE_CHECKING:
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.ledger.state import TopicState

    from .access import Access
    from .backlog_quota import QuotaWatch
    from .core import Core, Timer
    from .delayed import DelayWatch
    from .dispatch_rates import DispatchLimits
    from .expiry import Expiry
    from .non_persistent import Live
    from .producers import Producer
    from .publish_rates import PublishLimit
    from .usage import OldestEntry

SYSTEM_NAMESPACE = "pulsar/system"
"""Exists in every Pulsar; here so that clients with transactions reach the refusal that explains itself."""

NEVER_BYTES = 1 << 62
"""`Topic.look_at_bytes` when nobody needs to look."""


class Topic:
    """A topic, or one partition of one, that somebody used since the start."""

    __slots__ = (
        "access",
        "bytes_in",
        "bytes_out_before",
        "confirmed_entry_id",
        "confirmed_ledger_id",
        "deduplicates",
        "delays",
        "dispatch_limits",
        "end_group",
        "evictions_by_age",
        "evictions_by_size",
        "expiry",
        "full_name",
        "held_ledger",
        "last_published_ms",
        "ledger",
        "live",
        "look_at_bytes",
        "messages_in",
        "messages_out_before",
        "meter",
        "name",
        "oldest",
        "partition",
        "producers",
        "publish_limit",
        "publish_limited_times",
        "quota",
        "roll_limits",
        "state",
        "subscriptions",
        "trim_timer",
        "was_used",
    )

    def __init__(self, core: Core, name: TopicName, state: TopicState, confirmed: Position) -> None:
        config = core.config
        self.name, self.full_name = name, name.full
        self.partition = name.partition
        """Index of the partition, -1 for a topic without."""
        self.state = state
        self.ledger: ManagedLedger = state.ledger
        self.roll_limits = RollLimits(
            config.ledger_max_entries, config.ledger_max_bytes, config.ledger_max_age_ms, config.ledger_min_age_ms
        )
        self.confirmed_ledger_id, self.confirmed_entry_id = confirmed
        self.producers: dict[str, Producer] = {}
        """By name."""
        self.access: Access | None = None
        """Who has the topic alone and who waits for it; None until somebody wants it alone (PR-4)."""
        self.publish_limit: PublishLimit | None = None
        """How fast it may be published to, when that is limited (PR-14)."""
        self.publish_limited_times = 0
        """How often a connection that publishes to it was not read because of a rate."""
        self.dispatch_limits: DispatchLimits | None = None
        """How fast it may be consumed, when that is limited (SUB-7)."""
        self.subscriptions: dict[str, Subscription] = {}
        """By name, durable or not."""
        self.delays: DelayWatch | None = None
        """What watches its delayed entries, once there was one (DEL-4)."""
        self.live: Live | None = None
        """What only a non-persistent topic has; None for others (NP-1)."""
        self.end_group = 0
        """The group that the end of the topic is durable with (TN-13)."""
        self.deduplicates = False
        """Whether repeated entries are found by their sequence ids (DED-1)."""
        self.messages_in = self.bytes_in = 0
        self.last_published_ms = 0
        """When something was published since the start; 0 = never."""
        self.messages_out_before = self.bytes_out_before = 0
        """What went to subscriptions that are gone."""
        self.meter = Meter(core.now_ms, (0, 0, state.ledger.total_entries))
        self.evictions_by_size = self.evictions_by_age = 0
        """How often backlogs lost entries because they reached a quota (BQ-6, BQ-7)."""
        self.look_at_bytes = NEVER_BYTES
        """Upkeep looks at what is appended when `bytes_in` has reached this."""
        self.expiry: Expiry | None = None
        """What lets entries expire, when the topic has a time to live (TTL-1)."""
        self.quota: QuotaWatch | None = None
        """What watches its backlog, when it has a quota (BQ-1, BQ-2)."""
        self.oldest: OldestEntry | None = None
        """The last answer to `usage.with_oldest`."""
        self.held_ledger = NOTHING_HELD
        """The oldest ledger, when nothing but retention keeps it."""
        self.trim_timer: Timer | None = None
        """When that is over."""
        self.was_used = False
        """Whether a producer, consumer or subscription came since `inactive_topics` looked at it."""

    @property
    def confirmed(self) -> Position:
        """The last entry that is on disk (LAC): what may be delivered ends here (ML-5). Made when it is asked for: it
        changes more often than that."""
        return Position(self.confirmed_ledger_id, self.confirmed_entry_id)

    @property
    def consumer_count(self) -> int:
        """Connected consumers of all subscriptions."""
        return sum(len(subscription.consumers) for subscription in self.subscriptions.values())

    def must_roll(self, core: Core) -> bool:
        """Whether a new ledger must be opened before the next entry (ML-1, ML-2)."""
        return self.ledger.must_roll(core.now_ms, self.roll_limits)

    def confirm(self, core: Core, run: EntryRun) -> None:
        """A run is on disk: readers may have it."""
        self.confirmed_ledger_id, self.confirmed_entry_id = run.ledger_id, run.first_entry_id + len(run.starts) - 1
        if self.subscriptions:
            self.wake_subscriptions(core)

    def wake_subscriptions(self, core: Core) -> None:
        """Let every subscription with consumers send what is new."""
        for subscription in self.subscriptions.values():
            if subscription.consumers:
                core.wake(subscription)


# ---- questions --------------------------------------------------------------------------------------------------


def check_namespace(core: Core, name: TopicName) -> None:
    """TopicNotFound unless the topic's namespace exists (TN-7)."""
    if name.namespace_name not in core.state.namespaces and name.namespace_name != SYSTEM_NAMESPACE:
        raise TopicNotFound("Namespace not found")


def exists(core: Core, name: TopicName) -> bool:
    """Whether the topic (not: partitioned topic) exists."""
    return name.full in core.state.topics_by_name or name.full in core.live.by_name


def partition_count(core: Core, name: TopicName) -> int | None:
    """Partitions of a partitioned topic, None when the name is not that of one."""
    known = core.state.partitioned.get(name.full)
    return None if known is None else known.partitions


def find(core: Core, name: TopicName) -> Topic | None:
    """The topic if it exists; brings it into use."""
    full = name.full
    topic = core.topics.get(full)
    if topic is None:
        state = core.state.topics_by_name.get(full)
        if state is not None:
            topic = _take_into_use(core, name, state)
    return topic


def obtain(core: Core, name: TopicName, *, may_create: bool) -> Topic:
    """The topic, made if it is missing and may be (TN-6, TN-7).

    Raises TopicNotFound when it may not be or no partition can have this name, NotAllowed for system topics and the
    base name of a partitioned topic.
    """
    check_namespace(core, name)
    topic = find(core, name)
    if topic is not None:
        return topic
    if name.is_system:
        raise NotAllowed(f"{name} is a system topic of the broker")
    if partition_count(core, name) is not None:
        raise NotAllowed(f"{name} is a partitioned topic: use its partitions")
    siblings = partition_count(core, name.base) if name.partition >= 0 else None
    if siblings is not None and name.partition >= siblings:
        raise TopicNotFound(f"{name} has only {siblings} partitions")
    if siblings is None and not (may_create and core.policies_of(name).allow_auto_topic_creation):
        raise TopicNotFound(f"Topic {name} not found")
    return create(core, name)


# ---- coming and going -------------------------------------------------------------------------------------------


def create(core: Core, name: TopicName, properties: Mapping[str, str] | None = None) -> Topic:
    """Make a topic that does not exist, with its first ledger. NotAllowed above the namespace's limit (TN-10),
    PersistenceError when its policy wants more copies than there can be, InvalidTopicName when the name is too long."""
    non_persistent.check_enabled(core, name)
    check_copies(core, name)
    bounds.check_topic(name)
    partitions.check_room(core, name, 1)
    return _create(core, name, properties)


def _create(core: Core, name: TopicName, properties: Mapping[str, str] | None = None) -> Topic:
    if not name.is_persistent:
        live = Topic(core, name, non_persistent.volatile_state(core, name, properties or {}), EARLIEST)
        core.live.add(live)
        core.upkeep.adopt_live(live)
        return live
    core.append(TopicCreated(core.state.next_topic_id, name.full, core.now_ms, dict(properties or {})))
    topic = _take_into_use(core, name, core.state.topics_by_name[name.full])
    core.watchers.changed(core, name, exists=True)
    open_ledger(core, topic)
    return topic


def create_partitioned(core: Core, name: TopicName, count: int, properties: Mapping[str, str]) -> None:
    """Make a partitioned topic with all its partitions, or what it lacks of them; every subscription of the old ones is
    created on new partitions at their beginning (PT-7). Refused as by `partitions.lacking` and `create`."""
    check_copies(core, name)
    lacking = partitions.lacking(core, name, count)
    core.append(PartitionedTopicSet(name.full, count, dict(properties)))
    for partition in lacking.names:
        topic = _create(core, partition)
        for subscription, its_properties in lacking.subscriptions.items():
            _create_durable(core, topic, subscription, before_first(topic), its_properties)


def open_ledger(core: Core, topic: Topic) -> LedgerInfo:
    """Seal the current ledger, if any, and open the next one; ledgers that everybody has consumed go (5.2)."""
    for record in core.state.records_to_open_ledger(topic.state.topic_id, core.now_ms):
        core.append(record)
    retention.trim(core, topic)
    info = topic.ledger.current
    assert info is not None, "just opened"
    core.upkeep.rolls.opened(info, topic.name)
    return info


def unload(core: Core, topic: Topic) -> None:
    """Close all producers and consumers of a topic, which come back. What comes next goes into a ledger of its own, as
    after every loading of a topic (ML-1); one that took nothing yet still serves."""
    disconnect_all(core, topic)
    core.upkeep.unloaded(topic)
    info = topic.ledger.open_ledger
    if info is not None and info.entries and topic.state.damage is None and not topic.state.is_terminated:
        open_ledger(core, topic)


def disconnect_all(core: Core, topic: Topic) -> None:
    """Close all producers and consumers of a topic; their clients come back if the topic stays."""
    access.refuse_waiters(topic, ServiceNotReady("Topic is temporarily unavailable"))  # PR-17
    for producer in list(topic.producers.values()):
        producers.disconnect(core, producer)
    for subscription in list(topic.subscriptions.values()):
        disconnect(core, subscription)


def delete(core: Core, topic: Topic) -> None:
    """Delete a topic with its subscriptions; connected clients are closed first."""
    disconnect_all(core, topic)
    if topic.live is not None:
        core.live.forget(topic)
        if topic.partition < 0:
            policies.forget_topic(core, topic.name)
            registry.topic_gone(core, topic.name)
        return
    for ledger_id in topic.ledger.ledger_ids():
        core.cache.drop_ledger(ledger_id)
    for record in core.state.records_to_delete_topic(topic.state.topic_id):
        core.append(record)
    core.watchers.changed(core, topic.name, exists=False)
    core.topics.pop(topic.full_name, None)
    topic.subscriptions.clear()  # who waits to join one finds that it is gone
    compaction.forget(core, topic)
    core.upkeep.let_go(topic)
    if topic.partition < 0:
        policies.forget_topic(core, topic.name)
        registry.topic_gone(core, topic.name)


def delete_partitioned(core: Core, name: TopicName) -> None:
    """Delete a partitioned topic with all its partitions."""
    for index in range(partition_count(core, name) or 0):
        topic = find(core, name.at_partition(index))
        if topic is not None:
            delete(core, topic)
    core.append(PartitionedTopicDeleted(name.full))
    policies.forget_topic(core, name)
    registry.topic_gone(core, name)


# ---- subscriptions of a topic -----------------------------------------------------------------------------------


def before_first(topic: Topic) -> Position:
    """The mark-delete position before the oldest stored entry (CUR-9 Earliest)."""
    return topic.ledger.previous_position(topic.ledger.first_position)


def at_end(topic: Topic) -> Position:
    """The mark-delete position behind everything taken so far (CUR-9 Latest)."""
    return topic.ledger.previous_position(topic.ledger.end_position)


def create_subscription(
    core: Core, topic: Topic, name: str, mark_delete: Position, properties: Mapping[str, str]
) -> Subscription:
    """Create a durable subscription that does not exist. NotAllowed above the limit (CUR-18)."""
    limit = core.policies_of(topic.name).max_subscriptions
    if limit and len(topic.subscriptions) >= limit:
        raise NotAllowed(f"Exceed the maximum number of subscriptions of the topic: {topic.name}")
    if topic.live is not None:
        return non_persistent.create_subscription(core, topic, name, properties)
    return _create_durable(core, topic, name, mark_delete, properties)


def _create_durable(
    core: Core, topic: Topic, name: str, mark_delete: Position, properties: Mapping[str, str]
) -> Subscription:
    place = (core.state.next_cursor_id, topic.state.topic_id, name, *mark_delete)
    core.append(CursorCreated(*place, core.now_ms, dict(properties)))
    subscription = Subscription(core, topic, topic.state.cursors[name])
    topic.subscriptions[name] = subscription
    topic.was_used = True
    core.idle.made(subscription)
    core.upkeep.joined(topic)
    return subscription


def create_initial_subscription(core: Core, topic: Topic, name: str) -> None:
    """The subscription that a producer asks for (PR-18): at the beginning, if it is missing."""
    if name in topic.subscriptions:
        return
    if topic.live is None and not core.policies_of(topic.name).allow_auto_subscription_creation:
        raise NotAllowed(
            "Could not create the initial subscription due to the auto subscription creation is not allowed."
        )
    check_subscription_name(name)
    create_subscription(core, topic, name, before_first(topic), {})


def _take_into_use(core: Core, name: TopicName, state: TopicState) -> Topic:
    topic = Topic(core, name, state, confirmed=state.ledger.last_position)
    for cursor in state.cursors.values():
        subscription = topic.subscriptions[cursor.name] = Subscription(core, topic, cursor)
        subscription.born_group = 0  # it was there when the broker started
    core.topics[topic.full_name] = topic
    core.upkeep.adopt(topic)
    delayed.adopt(core, topic)
    deduplication.apply_policy(core, topic)
    compaction.prepare(core, topic)
    return topic
