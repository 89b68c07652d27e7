"""Retention: ledgers that all subscriptions have consumed are trimmed when their policy allows it (TRIM-1, RET-1, X14).

Topics are trimmed after a ledger was closed, when a subscription passed the end of the oldest ledger or was deleted,
when a policy changed, and at the very time at which the oldest ledger's retention is over. One limit of 0 retains
nothing (RET-2: `RetentionPolicy.keeps_nothing`). An entry that one subscription has not acknowledged, or that waits for
its time, keeps its ledger (ACK-7, DEL-6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.entities.topic import NOTHING_HELD
from spark_pulsar.ledger.managed_ledgers.trimming import plan_trimming
from spark_pulsar.ledger.state.ledgers import LedgersTrimmed

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic


def trim(core: Core, topic: Topic) -> None:
    """Trims the ledgers that nothing protects (TRIM-2, TRIM-3: `ledger.managed_ledgers.trimming`), and again when the
    next ledger's retention is over (TRIM-1, RET-1, RET-4). Readers protect none (RET-5)."""
    if core.state.topics.get(topic.state.topic_id) is not topic.state:
        return
    retention = core.policies_of(topic.name).retention
    plan = plan_trimming(topic.ledger, topic.state.slowest_mark_delete(), retention, core.wall_ms, core.wall_since_ms)
    if plan.gone:
        core.append(LedgersTrimmed(topic.state.topic_id, plan.gone))
        for ledger_id in plan.gone:
            core.cache.drop_ledger(ledger_id)
        topic.ledgers_trimmed(core)
    topic.held_ledger = NOTHING_HELD if plan.held is None else plan.held
    _trim_at(core, topic, plan.held_until_ms)


def _trim_at(core: Core, topic: Topic, when_ms: int | None) -> None:
    """Trims again at a time, the same one as long as the same ledger is held."""
    timer = topic.trim_timer
    if timer is not None:
        if timer.when_ms == when_ms and timer.call is not None:
            return
        timer.cancel()
        topic.trim_timer = None
    if when_ms is not None and core.config.retention_check_interval_ms > 0:

        def due() -> None:
            topic.trim_timer = None
            trim(core, topic)

        topic.trim_timer = core.at_wall(when_ms, due)
