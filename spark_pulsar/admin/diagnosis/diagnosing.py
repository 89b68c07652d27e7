"""Diagnosis: applies every rule to the facts, and puts the most direct cause first (WHY-2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from spark_pulsar.admin.diagnosis import consumer_rules as of_consumers
from spark_pulsar.admin.diagnosis import subscription_rules as of_subscriptions
from spark_pulsar.admin.diagnosis import topic_rules as of_topics
from spark_pulsar.admin.diagnosis.facts import Facts, Log, together
from spark_pulsar.admin.diagnosis.findings import Cause, Finding, State, listed
from spark_pulsar.admin.diagnosis.view import View

Rule = Callable[[View], Finding | None]
_RULES: Final[tuple[Rule, ...]] = (
    of_subscriptions.no_consumer,
    of_consumers.unacked_consumer,
    of_consumers.unacked_subscription,
    of_consumers.dispatch_rate,
    of_subscriptions.transaction_open,
    of_subscriptions.delayed,
    of_consumers.keys_unowned,
    of_consumers.keys_draining,
    of_consumers.no_permits,
    of_consumers.unacknowledged,
    of_consumers.filtered,
    of_subscriptions.expired,
    of_subscriptions.deleted,
    of_subscriptions.at_latest,
    of_subscriptions.evicted,
    of_consumers.exclusive,
    of_consumers.failover,
    of_consumers.most_consumers,
    of_consumers.types_disabled,
    of_subscriptions.not_stored,
    of_subscriptions.replicated,
    of_subscriptions.encrypted,
)
"""Rules of a subscription, the most direct first."""
_ENDS: Final[tuple[Rule, ...]] = (
    of_subscriptions.received,
    of_subscriptions.all_acknowledged,
    of_subscriptions.nothing_published,
)
"""Findings with which nothing is wrong, the most of news first."""
_PUBLISHING: Final[tuple[Callable[[Facts, Log], Finding | None], ...]] = (
    of_topics.disk_full,
    of_topics.terminated,
    of_topics.backlog_quota,
    of_topics.producer_exclusive,
    of_topics.publish_rate,
    of_topics.most_producers,
    of_topics.schema,
    of_topics.encryption_required,
)
_ORDER: Final = (State.CAUSE, State.NOTE, State.OK)


def diagnose(facts: Facts) -> list[Finding]:
    """Returns the findings: causes, then notes, then that nothing is wrong; at least one."""
    missing = of_topics.not_there(facts)
    if missing is not None:
        return [missing]
    findings = list(_findings(facts))
    findings.sort(key=lambda finding: _ORDER.index(finding.state))
    return findings


def _findings(facts: Facts) -> Iterator[Finding]:
    if facts.role:
        yield from _some(of_topics.role(facts))
    yield from _some(of_topics.no_subscription(facts))
    names = [facts.subscription] if facts.subscription else facts.subscriptions
    for name in names:
        if name in facts.subscriptions:
            yield from _of_subscription(facts, name)
    log = together(facts.logs)
    for publishing in _PUBLISHING:
        yield from _some(publishing(facts, log))
    if not facts.role:
        yield from _some(of_topics.role(facts))
    yield from _some(of_topics.not_seen(facts))


def _some(finding: Finding | None) -> Iterator[Finding]:
    if finding is not None:
        yield finding


def _of_subscription(facts: Facts, name: str) -> Iterator[Finding]:
    yield from _some(of_topics.unread_partitions(facts, name))
    logs = [log for log in facts.logs if name in log.subscriptions]
    causes = 0
    for rule in _RULES:
        finding = _apply(rule, facts, logs, name)
        causes += finding is not None and finding.state is State.CAUSE
        yield from _some(finding)
    if not causes:
        unexplained = _apply(of_consumers.unexplained, facts, logs, name)
        yield from _some(unexplained)
        causes += unexplained is not None
    good = [end for rule in _ENDS if (end := _apply(rule, facts, logs, name)) is not None]
    if good and (not causes or good[0].cause is Cause.RECEIVED):
        yield good[0]


def _apply(rule: Rule, facts: Facts, logs: Sequence[Log], name: str) -> Finding | None:
    """Applies a rule to every partition, and returns one finding for those where it holds, with their values
    together."""
    hits = [log for log in logs if rule(View(facts, log, log.subscriptions[name])) is not None]
    if not hits:
        return None
    log = together(hits)
    finding = rule(View(facts, log, log.subscriptions[name]))
    if finding is None:  # it holds in each of them and not in all together
        finding = rule(View(facts, hits[0], hits[0].subscriptions[name]))
    if finding is None or len(hits) == facts.partitions or not facts.partitions:
        return finding
    numbers = tuple(log.number for log in hits if log.number is not None)
    if finding.state is not State.CAUSE:
        return replace(finding, partitions=numbers)
    noun = "partition" if len(numbers) == 1 else "partitions"
    sentence = f"{finding.sentence.removesuffix('.')} (in {noun} {listed(numbers)} of {facts.partitions:,})."
    return replace(finding, sentence=sentence, partitions=numbers)
