"""Backlog quotas: what happens when the slowest subscription of a topic leaves too much behind (rules 5.5).

Size is looked at by the publish that may have reached the limit: after each look it is known how many bytes must come
before another one is due, so that publishing costs one comparison. It is judged by exact sizes, which may have to be
read first; up to then an upper bound will do. Age is looked at when the oldest entry reaches it;
it is told by the entry itself, on the open ledger too (section 21, row 15). Both are looked at again at the configured
interval. Producers are closed after the receipts of what they have sent, so that nothing is sent twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.broker.entities import producer as producers
from spark_pulsar.broker.entities.topic import NEVER_BYTES
from spark_pulsar.broker.lifetime import expire_by_time
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topic_log import backlog_size
from spark_pulsar.broker.topic_log.entry_timestamps import time_in
from spark_pulsar.ledger.state.size_marks import SizeSpan
from spark_pulsar.model.errors import BacklogQuotaExceeded, BacklogQuotaHold, PulsarError
from spark_pulsar.model.policies import BACKLOG_EVICTION, PRODUCER_EXCEPTION, BacklogQuota

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_pulsar.broker.entities import features
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import OldestEntry, Topic
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.model.ids import Position
    from spark_pulsar.model.names import TopicName

_EVICT_TO_PERCENT: Final = 90
"""Eviction goes on until the backlog is this share of the limit (BQ-6, BQ-7)."""
_AGAIN_MS: Final = 1_000
"""When an age over its limit is looked at again, because what is over it could not be evicted."""


class Excess(NamedTuple):
    """A quota that is exceeded, and by whom."""

    quota: BacklogQuota
    text: str


class QuotaWatch:
    """The quotas of one topic."""

    __slots__ = ("age", "evicting", "is_looking", "size", "timer")

    def __init__(self, size: BacklogQuota, age: BacklogQuota) -> None:
        self.size = size
        self.age = age
        self.timer: Timer | None = None
        self.evicting = 0
        """Subscriptions whose old entries are being looked for."""
        self.is_looking = False
        """Whether a look waits for the disk."""

    @property
    def has_size(self) -> bool:
        """Whether there is a limit of size; 0 is one (BQ-1)."""
        return self.size.limit_bytes >= 0

    @property
    def has_age(self) -> bool:
        """Whether there is a limit of age (BQ-2)."""
        return self.age.limit_time_s > 0

    def end(self) -> None:
        """Watch nothing any more."""
        if self.timer is not None:
            self.timer.cancel()


def is_on(core: Core, name: TopicName) -> bool:
    """Whether a topic has a quota that is enforced."""
    if name.is_system or not core.config.quota_check_enabled:
        return False
    policies = core.policies_of(name)
    return policies.size_quota.limit_bytes >= 0 or policies.age_quota.limit_time_s > 0


def adopt(core: Core, topic: Topic) -> None:
    """A topic came into use, or its policies are others."""
    policies = core.policies_of(topic.name)
    watch = topic.quota
    wanted = is_on(core, topic.name)
    if watch is not None and not (wanted and (watch.size, watch.age) == (policies.size_quota, policies.age_quota)):
        watch.end()
        topic.quota = None
    if wanted and topic.quota is None:
        topic.quota = QuotaWatch(policies.size_quota, policies.age_quota)
        look(core, topic)
    set_look_at_bytes(topic)


def set_look_at_bytes(topic: Topic) -> None:
    """How many bytes must be published before somebody looks: none when ages matter."""
    watch = topic.quota
    if topic.ttl_monitor is not None or (watch is not None and watch.has_age):
        topic.look_at_bytes = 0
    elif watch is None or not watch.has_size:
        topic.look_at_bytes = NEVER_BYTES
    else:
        topic.look_at_bytes = topic.bytes_in + max(1, watch.size.limit_bytes - backlog_size.most_backlog_bytes(topic))


def appended(core: Core, topic: Topic, run: EntryRun) -> None:
    """A run was appended to a topic with quotas, and it may have reached one."""
    watch = topic.quota
    assert watch is not None, "asked for topics with quotas only"
    if watch.has_age and watch.timer is None:
        published_ms = min(time_in(run, 0), core.now_ms)
        _look_at_age_at(core, topic, published_ms + watch.age.limit_time_s * 1000 + 1)
    if watch.has_size and backlog_size.most_backlog_bytes(topic) >= watch.size.limit_bytes:
        look(core, topic)
    else:
        set_look_at_bytes(topic)


def look(core: Core, topic: Topic) -> None:
    """Look at both quotas when everything that was appended is on disk, and do what they ask for."""
    watch = topic.quota
    if watch is None or watch.is_looking:
        return
    watch.is_looking = True

    def is_over() -> bool:
        return topic.quota is not watch or core.topics.get(topic.full_name) is not topic

    def when_durable() -> None:
        if not is_over():
            _look_at_size(core, topic, is_over, size_seen)

    def size_seen() -> None:
        watch.is_looking = False
        if not is_over():
            set_look_at_bytes(topic)
            _look_at_age(core, topic)

    core.when_durable(when_durable)


# ---- size -------------------------------------------------------------------------------------------------------


def _judge_size(core: Core, topic: Topic, oldest: OldestEntry | None, done: Callable[[Excess | None], None]) -> None:
    """Whether the backlog reaches the limit of size, by exact sizes; `done` in this or a later turn. What cannot be
    measured is looked at again in a while."""
    quota = core.policies_of(topic.name).size_quota
    cursor = backlog_size.slowest(topic)
    if quota.limit_bytes < 0 or cursor is None:
        done(None)
        return
    backlog = topic.ledger.bytes_after_at_most(cursor.mark_delete)
    if backlog < quota.limit_bytes:
        done(None)
        return
    span = topic.ledger.unmeasured(cursor.mark_delete)
    if span is None:
        text = f"subscription '{cursor.name}' leaves {backlog} bytes behind, the limit is {quota.limit_bytes}"
        done(Excess(quota, text + _age_text(core, oldest)))
        return

    def measured(is_known: bool) -> None:
        if is_known:
            _judge_size(core, topic, oldest, done)
        else:
            _look_again(core, topic)
            done(None)

    backlog_size.measure(core, topic, span, measured)


def _look_again(core: Core, topic: Topic) -> None:
    core.at(core.now_ms + _AGAIN_MS, lambda: look(core, topic))


def _look_at_size(core: Core, topic: Topic, is_over: Callable[[], bool], done: Callable[[], None]) -> None:
    """Do what the size of the backlog asks for; `done` in this or a later turn."""

    def judged(excess: Excess | None) -> None:
        if is_over() or excess is None:
            done()
        elif excess.quota.policy == BACKLOG_EVICTION:
            evict(excess.quota)
        else:
            _close_producers(core, topic)
            done()

    def evict(quota: BacklogQuota) -> None:
        cursor = backlog_size.slowest(topic)
        assert cursor is not None, "it leaves too much behind"
        target = topic.ledger.keeping_bytes(quota.limit_bytes * _EVICT_TO_PERCENT // 100, cursor.mark_delete)
        if isinstance(target, SizeSpan):
            backlog_size.measure(
                core, topic, target, measured
            )  # and judge again: meanwhile entries may have been acked
            return
        _evict_through(core, topic, target)
        done()
        if topic.last_add_confirmed < topic.ledger.last_position:
            look(core, topic)  # what was published meanwhile may be evicted when it is on disk

    def measured(is_known: bool) -> None:
        if is_known and not is_over():
            _look_at_size(core, topic, is_over, done)
        else:
            _look_again(core, topic)
            done()

    _judge_size(core, topic, None, judged)


def _evict_through(core: Core, topic: Topic, target: Position) -> None:
    """Every subscription gives up what lies before the last 90 % of the limit. One step, so that there is no loop to
    go astray in (section 21, row 17)."""
    target = min(target, topic.last_add_confirmed)
    evicted = 0
    for subscription in list(topic.subscriptions.values()):
        if subscription.is_durable:
            evicted += cursor_moves.mark_deleted(core, subscription, target, lazily=True)
    topic.evictions_by_size += evicted > 0


# ---- age --------------------------------------------------------------------------------------------------------


def _age_excess(core: Core, topic: Topic, oldest: OldestEntry | None) -> Excess | None:
    quota = core.policies_of(topic.name).age_quota
    if quota.limit_time_s <= 0 or oldest is None or oldest.publish_ms is None:
        return None
    if core.now_ms - oldest.publish_ms <= quota.limit_time_s * 1000:
        return None
    size = backlog_size.backlog_bytes(topic)
    return Excess(
        quota,
        f"subscription '{oldest.subscription}' leaves {size} bytes behind{_age_text(core, oldest)}, the limit is "
        f"{quota.limit_time_s} seconds",
    )


def _age_text(core: Core, oldest: OldestEntry | None) -> str:
    if oldest is None or oldest.publish_ms is None:
        return ""
    return f", the oldest message is {max(0, core.now_ms - oldest.publish_ms) // 1000} seconds old"


def _look_at_age(core: Core, topic: Topic) -> None:
    """Find the oldest entry, do what its age asks for, and come back when it is too old."""
    watch = topic.quota
    if watch is None or not watch.has_age:
        return

    def found(oldest: OldestEntry | None) -> None:
        if topic.quota is not watch or core.topics.get(topic.full_name) is not topic:
            return
        excess = _age_excess(core, topic, oldest)
        if excess is not None:
            if excess.quota.policy == BACKLOG_EVICTION:
                _evict_age(core, topic, watch)
            else:
                _close_producers(core, topic)
            _look_at_age_at(core, topic, core.now_ms + _AGAIN_MS)
        elif oldest is not None and oldest.publish_ms is not None:
            # By what holds now: the watch may still be the one of a policy that was just taken away.
            limit_s = core.policies_of(topic.name).age_quota.limit_time_s
            if limit_s > 0:
                _look_at_age_at(core, topic, oldest.publish_ms + limit_s * 1000 + 1)

    backlog_size.with_oldest(core, topic, found)


def _evict_age(core: Core, topic: Topic, watch: features.QuotaWatch) -> None:
    """Every subscription gives up what is older than 90 % of the limit, in whole seconds (BQ-7)."""
    if watch.evicting:
        return
    before_ms = core.now_ms - watch.age.limit_time_s * _EVICT_TO_PERCENT // 100 * 1000
    losing = [subscription for subscription in topic.subscriptions.values() if subscription.is_durable]
    expired_before = sum(subscription.entries_expired for subscription in losing)

    def done() -> None:
        watch.evicting -= 1
        if not watch.evicting:
            topic.evictions_by_age += sum(subscription.entries_expired for subscription in losing) > expired_before

    watch.evicting = len(losing)
    for subscription in losing:
        expire_by_time.older_than(core, subscription, before_ms, done)


def _look_at_age_at(core: Core, topic: Topic, when_ms: int) -> None:
    watch = topic.quota
    assert watch is not None, "asked for topics with quotas only"
    if watch.timer is not None:
        if watch.timer.when_ms <= when_ms:
            return  # it looks again then
        watch.timer.cancel()

    def due() -> None:
        watch.timer = None
        look(core, topic)

    watch.timer = core.at(when_ms, due)


# ---- producers --------------------------------------------------------------------------------------------------


def _close_producers(core: Core, topic: Topic) -> None:
    """Close the producers; their clients come back and are told why (BQ-4, BQ-5)."""
    for producer in list(topic.producers.values()):
        producers.disconnect_after_receipts(core, producer)


def admit(core: Core, topic: Topic, go_on: Callable[[PulsarError | None], None]) -> None:
    """Whether a producer may open on the topic: `go_on` gets the refusal or None, in this or a later turn. The refusal
    names the slowest subscription, its size and its age (section 21, row 16)."""
    watch = topic.quota
    if watch is None:
        go_on(None)
        return

    def found(oldest: OldestEntry | None) -> None:
        _judge_size(core, topic, oldest, lambda size: judged(size, _age_excess(core, topic, oldest)))

    def judged(*found: Excess | None) -> None:
        for excess in found:
            if excess is not None and excess.quota.policy != BACKLOG_EVICTION:
                kind = BacklogQuotaExceeded if excess.quota.policy == PRODUCER_EXCEPTION else BacklogQuotaHold
                go_on(kind(f"Cannot create producer on topic with backlog quota exceeded: {excess.text}"))
                return
        go_on(None)

    backlog_size.with_oldest(core, topic, found)
