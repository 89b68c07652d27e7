"""Backlog quotas: limits of the backlog of a topic's slowest subscription (BQ-1 ... BQ-11).

Size is checked by the publish that may have reached the limit: each check returns how many bytes must come before the
next one is due, so that publishing costs one comparison. It is judged by exact sizes, which may have to be read first;
up to then an upper bound will do. Age is checked when the oldest entry reaches it; the entry itself holds it, on the
open ledger too (BQ-2). Both are checked again at the configured interval. Producers are closed after the
receipts of what they have sent, so that nothing is sent twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.broker.entities import producer as producers
from spark_pulsar.broker.entities.features import QuotaWatch
from spark_pulsar.broker.entities.topic import NEVER_BYTES
from spark_pulsar.broker.message_lifetime import expire_by_time
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topic_log import backlog_bytes
from spark_pulsar.broker.topic_log.entry_timestamps import time_in
from spark_pulsar.ledger.managed_ledgers.ledger import SizeSpan
from spark_pulsar.model.errors import BacklogQuotaExceeded, BacklogQuotaHold, PulsarError
from spark_pulsar.model.policies.effective_policies import BACKLOG_EVICTION, PRODUCER_EXCEPTION, BacklogQuota

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import OldestEntry, Topic
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.model.names import TopicName
    from spark_pulsar.model.positions.ids import Position

_EVICT_TO_PERCENT: Final = 90
"""Share of the limit that eviction leaves of a backlog (BQ-6, BQ-7)."""
_AGAIN_MS: Final = 1_000
"""Pause before a quota is checked again whose excess could not be measured or evicted."""


class Excess(NamedTuple):
    """A quota that is exceeded, and the subscription that exceeds it."""

    quota: BacklogQuota
    text: str


def is_on(core: Core, name: TopicName) -> bool:
    """Returns whether a topic has a quota that is enforced."""
    if name.is_system or not core.config.quota_check_enabled:
        return False
    policies = core.policies_of(name)
    return policies.size_quota.limit_bytes >= 0 or policies.age_quota.limit_time_s > 0


def adopt(core: Core, topic: Topic) -> None:
    """Sets up the quotas of a topic that comes into use, or has other policies."""
    policies = core.policies_of(topic.name)
    watch = topic.quota
    wanted = is_on(core, topic.name)
    if watch is not None and not (wanted and (watch.size, watch.age) == (policies.size_quota, policies.age_quota)):
        watch.end()
        topic.quota = None
    if wanted and topic.quota is None:
        topic.quota = QuotaWatch(policies.size_quota, policies.age_quota)
        check(core, topic)
    set_check_at_bytes(topic)


def set_check_at_bytes(topic: Topic) -> None:
    """Sets the bytes that must be published before the next check: none when ages matter."""
    watch = topic.quota
    if topic.ttl_monitor is not None or (watch is not None and watch.has_age):
        topic.check_at_bytes = 0
    elif watch is None or not watch.has_size:
        topic.check_at_bytes = NEVER_BYTES
    else:
        topic.check_at_bytes = topic.bytes_in + max(1, watch.size.limit_bytes - backlog_bytes.most_backlog_bytes(topic))


def appended(core: Core, topic: Topic, run: EntryRun) -> None:
    """Checks the quotas of a topic that a run which was appended may have reached."""
    watch = topic.quota
    assert watch is not None, "only topics with quotas have one"
    if watch.has_age and watch.timer is None:
        published_ms = min(time_in(run, 0), core.wall_ms)
        _check_age_at(core, topic, published_ms + watch.age.limit_time_s * 1000 + 1)
    if watch.has_size and backlog_bytes.most_backlog_bytes(topic) >= watch.size.limit_bytes:
        check(core, topic)
    else:
        set_check_at_bytes(topic)


def check(core: Core, topic: Topic) -> None:
    """Checks both quotas when everything that was appended is on disk, and enforces them."""
    watch = topic.quota
    if watch is None or watch.is_checking:
        return
    watch.is_checking = True

    def is_over() -> bool:
        return topic.quota is not watch or core.topics.get(topic.full_name) is not topic

    def when_durable() -> None:
        if not is_over():
            _check_size(core, topic, is_over, size_seen)

    def size_seen() -> None:
        watch.is_checking = False
        if not is_over():
            set_check_at_bytes(topic)
            _check_age(core, topic)

    core.when_durable(when_durable)


# ---- size -------------------------------------------------------------------------------------------------------


def _judge_size(core: Core, topic: Topic, oldest: OldestEntry | None, done: Callable[[Excess | None], None]) -> None:
    """Finds whether the backlog reaches the limit of size, by exact sizes; `done` in this or a later turn. A size that
    cannot be measured is checked again in a while."""
    quota = core.policies_of(topic.name).size_quota
    cursor = backlog_bytes.slowest(topic)
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
            _check_again(core, topic)
            done(None)

    backlog_bytes.measure(core, topic, span, measured)


def _check_again(core: Core, topic: Topic) -> None:
    core.at(core.now_ms + _AGAIN_MS, lambda: check(core, topic))


def _check_size(core: Core, topic: Topic, is_over: Callable[[], bool], done: Callable[[], None]) -> None:
    """Enforces the quota of size; calls `done` in this or a later turn."""

    def judged(excess: Excess | None) -> None:
        if is_over() or excess is None:
            done()
        elif excess.quota.policy == BACKLOG_EVICTION:
            evict(excess.quota)
        else:
            _close_producers(core, topic)
            done()

    def evict(quota: BacklogQuota) -> None:
        cursor = backlog_bytes.slowest(topic)
        assert cursor is not None, "it leaves too much behind"
        target = topic.ledger.keeping_bytes(quota.limit_bytes * _EVICT_TO_PERCENT // 100, cursor.mark_delete)
        if isinstance(target, SizeSpan):
            # and judge again: meanwhile entries may have been acked
            backlog_bytes.measure(core, topic, target, measured)
            return
        _evict_through(core, topic, target)
        done()
        if topic.last_add_confirmed < topic.ledger.last_position:
            check(core, topic)  # entries published meanwhile may be evicted when they are on disk

    def measured(is_known: bool) -> None:
        if is_known and not is_over():
            _check_size(core, topic, is_over, done)
        else:
            _check_again(core, topic)
            done()

    _judge_size(core, topic, None, judged)


def _evict_through(core: Core, topic: Topic, target: Position) -> None:
    """Marks entries before the last 90 % of the limit as consumed by every subscription. One step, so that there is no
    loop to go astray in (BQ-7)."""
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
    if core.wall_ms - oldest.publish_ms <= quota.limit_time_s * 1000:
        return None
    size = backlog_bytes.backlog_bytes(topic)
    return Excess(
        quota,
        f"subscription '{oldest.subscription}' leaves {size} bytes behind{_age_text(core, oldest)}, the limit is "
        f"{quota.limit_time_s} seconds",
    )


def _age_text(core: Core, oldest: OldestEntry | None) -> str:
    if oldest is None or oldest.publish_ms is None:
        return ""
    return f", the oldest message is {max(0, core.wall_ms - oldest.publish_ms) // 1000} seconds old"


def _check_age(core: Core, topic: Topic) -> None:
    """Finds the oldest entry, does what its age requires, and checks again when it is too old."""
    watch = topic.quota
    if watch is None or not watch.has_age:
        return

    def enforce(oldest: OldestEntry | None) -> None:
        if topic.quota is not watch or core.topics.get(topic.full_name) is not topic:
            return
        excess = _age_excess(core, topic, oldest)
        if excess is not None:
            if excess.quota.policy == BACKLOG_EVICTION:
                _evict_age(core, topic, watch)
            else:
                _close_producers(core, topic)
            _check_age_at(core, topic, core.wall_ms + _AGAIN_MS)
        elif oldest is not None and oldest.publish_ms is not None:
            # By the present policy: the watch may still be that of a policy that was just removed.
            limit_s = core.policies_of(topic.name).age_quota.limit_time_s
            if limit_s > 0:
                _check_age_at(core, topic, oldest.publish_ms + limit_s * 1000 + 1)
        elif oldest is not None and oldest is not topic.oldest:  # it could not be read
            _check_age_at(core, topic, core.wall_ms + _AGAIN_MS)

    backlog_bytes.with_oldest(core, topic, enforce)


def _evict_age(core: Core, topic: Topic, watch: QuotaWatch) -> None:
    """Expires entries older than 90 % of the limit, in whole seconds, for every subscription (BQ-7)."""
    if watch.evicting:
        return
    before_ms = core.wall_ms - watch.age.limit_time_s * _EVICT_TO_PERCENT // 100 * 1000
    losing = [subscription for subscription in topic.subscriptions.values() if subscription.is_durable]
    expired_before = sum(subscription.entries_expired for subscription in losing)

    def done() -> None:
        watch.evicting -= 1
        if not watch.evicting:
            topic.evictions_by_age += sum(subscription.entries_expired for subscription in losing) > expired_before

    watch.evicting = len(losing)
    for subscription in losing:
        expire_by_time.older_than(core, subscription, before_ms, done)


def _check_age_at(core: Core, topic: Topic, when_ms: int) -> None:
    watch = topic.quota
    assert watch is not None, "only topics with quotas have one"
    if watch.timer is not None:
        if watch.timer.when_ms <= when_ms:
            return  # the check of age comes then
        watch.timer.cancel()

    def due() -> None:
        watch.timer = None
        check(core, topic)

    watch.timer = core.at_wall(when_ms, due)


# ---- producers --------------------------------------------------------------------------------------------------


def _close_producers(core: Core, topic: Topic) -> None:
    """Closes the producers; their clients come back and receive the reason (BQ-4, BQ-5)."""
    for producer in list(topic.producers.values()):
        producers.disconnect_after_receipts(core, producer)


def admit(core: Core, topic: Topic, go_on: Callable[[PulsarError | None], None]) -> None:
    """Finds whether a producer may open on the topic: `go_on` gets the refusal or None, in this or a later turn (BQ-9).
    The refusal names the slowest subscription, its size and its age (BQ-8)."""
    watch = topic.quota
    if watch is None:
        go_on(None)
        return

    def judge(oldest: OldestEntry | None) -> None:
        _judge_size(core, topic, oldest, lambda size: decide(size, _age_excess(core, topic, oldest)))

    def decide(*excesses: Excess | None) -> None:
        for excess in excesses:
            if excess is not None and excess.quota.policy != BACKLOG_EVICTION:
                kind = BacklogQuotaExceeded if excess.quota.policy == PRODUCER_EXCEPTION else BacklogQuotaHold
                go_on(kind(f"Cannot create producer on topic with backlog quota exceeded: {excess.text}"))
                return
        go_on(None)

    backlog_bytes.with_oldest(core, topic, judge)
