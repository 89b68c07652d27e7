"""Rules of a topic: whether it is there and read in all its partitions, who may use it, and what keeps producers from
publishing (WHY-2, WHY-6, WHY-7)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from difflib import get_close_matches
from http import HTTPStatus
from typing import Final

from spark_pulsar.admin.diagnosis.facts import Facts, Log
from spark_pulsar.admin.diagnosis.findings import (
    Cause,
    Finding,
    State,
    admin_namespaces,
    admin_topics,
    counted,
    listed,
    plural,
    short,
    time_text,
)

_QUOTA_HOLDS: Final = ("producer_request_hold", "producer_exception")


def not_there(facts: Facts) -> Finding | None:
    """Finds a topic, or its namespace, that does not exist, that no broker serves, or that the caller may not see."""
    if facts.refusal is None:
        return None
    status, reason = facts.refusal
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        sentence = f"Your role may not see the statistics of {short(facts.topic)}: {reason.rstrip('.')}."
        advice = (
            "Give the credentials of a role that may consume from it, or of an administrator of the tenant, by "
            "--auth-plugin and --auth-params, or by --profile."
        )
        return Finding(Cause.NOT_SEEN, State.CAUSE, sentence, advice)
    if status != HTTPStatus.NOT_FOUND:
        sentence = f"The topic {short(facts.topic)} is not served: {reason or f'HTTP status {status}'}."
        advice = f"Try again; where it stays so, see the broker's log, or run: {admin_topics('unload', facts.topic)}"
        return Finding(Cause.NOT_SERVED, State.CAUSE, sentence, advice)
    namespace = "/".join(facts.topic.partition("://")[2].split("/")[:2])
    near = f"; did you mean {listed(map(short, facts.near_names))}?" if facts.near_names else ""
    if "amespace" in reason or "enant" in reason:
        sentence = f"The namespace {namespace} does not exist: {reason.rstrip('.')}{near or '.'}"
        return Finding(Cause.NO_TOPIC, State.CAUSE, sentence, f"spark-pulsar admin namespaces create {namespace}")
    sentence = f"The topic {short(facts.topic)} does not exist in {namespace}{near or '.'}"
    advice = admin_topics("create", facts.topic)
    if facts.policies.auto_creation:
        advice = f"The first producer or consumer creates it, or run: {advice}"
    return Finding(Cause.NO_TOPIC, State.CAUSE, sentence, advice)


def no_subscription(facts: Facts) -> Finding | None:
    """Finds a topic without subscriptions, or without the one that was named."""
    names, wanted = facts.subscriptions, facts.subscription
    if (wanted in names) if wanted else names:
        return None
    topic = short(facts.topic)
    entries = [log.entries for log in facts.logs]
    stored = "" if None in entries else f" holds {plural(sum(filter(None, entries)), 'entry', 'entries')} and"
    sentence = f"{topic}{stored} has no subscription yet: retention alone keeps what is published before the first one."
    command = admin_topics("create-subscription", facts.topic, "-s", shlex.quote(wanted or "NAME"), "-m", "earliest")
    if names:
        near = get_close_matches(wanted, names, 3, 0.7)
        meant = f"did you mean {listed(_quoted(near))}?" if near else f"it has {listed(_quoted(names))}."
        sentence = f'{topic} has no subscription "{wanted}"; {meant}'
        command = f"spark-pulsar why {topic} {shlex.quote(near[0])}" if near else command
    return Finding(Cause.NO_SUBSCRIPTION, State.CAUSE, sentence, command, wanted)


def _quoted(names: list[str]) -> Iterator[str]:
    return (f'"{name}"' for name in names)


def unread_partitions(facts: Facts, subscription: str) -> Finding | None:
    """Finds partitions that no consumer of a subscription reads, while others of it read the rest."""
    read = [log for log in facts.logs if _consumers(log, subscription)]
    unread = [log for log in facts.logs if not _consumers(log, subscription)]
    if not read or not unread:
        return None
    numbers = tuple(log.number for log in unread if log.number is not None)
    backlog = sum(log.subscriptions[subscription].backlog for log in unread if subscription in log.subscriptions)
    without = [log for log in unread if subscription not in log.subscriptions]
    unseen = sum(log.published for log in without)
    waits = f", where {counted(backlog, 'message')} wait" if backlog else ""
    unseen_text = f", and the subscription does not exist in {len(without)} of them" if without else ""
    unseen_text += f", where {counted(unseen, 'message')} were published" if unseen else ""
    sentence = (
        f'No consumer of "{subscription}" reads {counted(len(numbers), "partition")} ({listed(numbers)}) of '
        f"{facts.partitions:,}{waits}{unseen_text}."
    )
    advice = (
        f"Subscribe to {short(facts.topic)} itself, not to single partitions; clients see added partitions after a "
        f"minute, or when they connect again."
    )
    is_missing = backlog or unseen
    return Finding(
        Cause.UNREAD_PARTITIONS, State.CAUSE if is_missing else State.NOTE, sentence, advice, subscription, numbers
    )


def _consumers(log: Log, subscription: str) -> int:
    return len(log.subscriptions[subscription].consumers) if subscription in log.subscriptions else 0


def disk_full(facts: Facts, _log: Log) -> Finding | None:
    """Finds a broker of ours that stores no more messages."""
    if not facts.disk_reason:
        return None
    sentence = f"The broker takes no messages: {facts.disk_reason.rstrip('.')}."
    return Finding(Cause.NO_DISK, State.CAUSE, sentence, "Make room on its disk; it takes messages again by itself.")


def terminated(facts: Facts, log: Log) -> Finding | None:
    """Finds a terminated topic."""
    if not log.is_terminated:
        return None
    sentence = f"{short(facts.topic)} is terminated: nothing can be published, consumers receive what is stored."
    return Finding(Cause.TERMINATED, State.CAUSE, sentence, "Publish to another topic; a termination is for good.")


def backlog_quota(facts: Facts, log: Log) -> Finding | None:
    """Finds a backlog beyond its quota, for which producers are held or refused."""
    for kind, (limit, policy) in facts.policies.quotas.items():
        value, unit = (log.backlog_bytes, "bytes") if kind == "destination_storage" else (log.backlog_age_s, "s")
        if policy not in _QUOTA_HOLDS or value < limit:
            continue
        done = "producers wait" if policy == "producer_request_hold" else "producers are refused"
        slowest = max(log.subscriptions.values(), key=lambda subscription: subscription.backlog, default=None)
        by = f' "{slowest.name}" has the largest backlog ({slowest.backlog:,}).' if slowest is not None else ""
        what = "backlog" if unit == "bytes" else "oldest message of the backlog"
        sentence = f"The {what} is at {value:,} {unit}, beyond the quota of {limit:,} {unit} ({policy}): {done}.{by}"
        name = shlex.quote(slowest.name) if slowest is not None else "NAME"
        command = admin_topics("clear-backlog", facts.topic, "-s", name)
        advice = f"Consume the backlog, remove it by: {command}; or raise the quota"
        return Finding(Cause.BACKLOG_QUOTA, State.CAUSE, sentence, advice)
    return None


def producer_exclusive(facts: Facts, log: Log) -> Finding | None:
    """Finds a producer that has the topic for itself."""
    exclusive = [publisher for publisher in log.publishers if publisher.access_mode != "Shared"]
    if not exclusive:
        return None
    holder = exclusive[0]
    since = f" since {time_text(holder.since_ms, facts.now_ms, facts.zone)}" if holder.since_ms else ""
    waiting = f"; {counted(log.waiting_publishers, 'producer')} wait for it" if log.waiting_publishers else ""
    sentence = (
        f'Producer "{holder.name}" from {holder.address} has {short(facts.topic)} for itself ({holder.access_mode})'
        f"{since}: others are refused or wait{waiting}."
    )
    state = State.CAUSE if log.waiting_publishers else State.NOTE
    return Finding(Cause.PRODUCER_EXCLUSIVE, state, sentence, "Close that producer, or use access mode Shared in all.")


def publish_rate(facts: Facts, log: Log) -> Finding | None:
    """Finds a publish rate that slows producers."""
    if not log.rate_limited:
        return None
    rate = facts.policies.rates.get("publish")
    limit = f" of {rate}" if rate is not None else ""
    times = f"{log.rate_limited_lately:,} times in the last {facts.window_s:.1f} s, {log.rate_limited:,} in all"
    sentence = f"The publish rate{limit} held producers of {short(facts.topic)} back {times}."
    command = admin_topics("set-publish-rate", facts.topic, "-m", "-1", "-b", "-1")
    state = State.CAUSE if log.rate_limited_lately else State.NOTE
    return Finding(Cause.PUBLISH_RATE, state, sentence, f"Publish more slowly, or raise it: {command}")


def most_producers(facts: Facts, log: Log) -> Finding | None:
    """Finds a limit of producers that is reached."""
    if not 0 < facts.policies.max_producers <= len(log.publishers):
        return None
    producers = counted(len(log.publishers), "producer")
    sentence = f"{short(facts.topic)} has {producers}, the most that it may have: one more is refused."
    command = admin_topics("set-max-producers", facts.topic, "-p", str(2 * facts.policies.max_producers))
    return Finding(Cause.MOST_PRODUCERS, State.NOTE, sentence, command)


def schema(facts: Facts, log: Log) -> Finding | None:
    """Finds a schema that refuses producers with another one. Says so while no producer is connected."""
    policies = facts.policies
    if facts.schema is None or log.publishers:
        return None
    kind, version = facts.schema
    refusals = [
        text
        for text, holds in (
            ("a producer with another schema is refused (automatic updates are off)", not policies.auto_update_schema),
            ("a producer without a schema is refused", policies.schema_validation),
        )
        if holds
    ]
    if not refusals and policies.schema_strategy not in ("ALWAYS_COMPATIBLE", "UNDEFINED", ""):
        refusals = [f"a producer whose schema is not compatible ({policies.schema_strategy}) is refused"]
    if not refusals:
        return None
    sentence = f"{short(facts.topic)} has a schema of type {kind}, version {version}: {listed(refusals)}."
    name = short(facts.topic)
    advice = f"Publish with this schema; see it by: spark-pulsar admin schemas get {name}"
    if not policies.auto_update_schema:
        command = admin_namespaces("set-is-allow-auto-update-schema", facts.topic, "--enable")
        advice += f"; or allow updates: {command}"
    return Finding(Cause.SCHEMA, State.NOTE, sentence, advice)


def encryption_required(facts: Facts, log: Log) -> Finding | None:
    """Finds a namespace that refuses producers without encryption."""
    if not facts.policies.encryption_required or log.publishers:
        return None
    sentence = "The namespace requires encryption: a producer without an encryption key is refused."
    command = admin_namespaces("set-encryption-required", facts.topic, "--disable")
    return Finding(Cause.ENCRYPTION_REQUIRED, State.NOTE, sentence, f"Give producers a key, or run: {command}")


def role(facts: Facts) -> Finding | None:
    """Finds a role that may not use the topic, or, for no role, the roles that may."""
    roles, name = facts.roles, facts.role
    if roles.is_on is False or (roles.is_on is None and not name):
        return None
    topic = short(facts.topic)
    consuming = (roles.of_subscription or roles.consuming) if facts.subscription else roles.consuming
    if not name:
        return _roles_that_may(facts, consuming)
    if name in roles.superusers:
        return None
    missing = [
        action for action, granted in (("consume", consuming), ("produce", roles.producing)) if name not in granted
    ]
    if not missing:
        return None
    sentence = f"No grant of the topic or its namespace allows the role {name} to {' or to '.join(missing)} on {topic}."
    words = ("--role", shlex.quote(name), "--actions", ",".join(missing))
    advice = admin_topics("grant-permissions", facts.topic, *words)
    state = State.CAUSE if "consume" in missing else State.NOTE
    return Finding(Cause.ROLE, state, sentence, advice, facts.subscription)


def _roles_that_may(facts: Facts, consuming: frozenset[str]) -> Finding | None:
    has_clients = any(_consumers(log, name) for log in facts.logs for name in log.subscriptions)
    if has_clients and any(log.publishers for log in facts.logs):
        return None
    names = listed(sorted(consuming)) if consuming else "no role"
    producing = listed(sorted(facts.roles.producing)) if facts.roles.producing else "no role"
    sentence = f"Authorization is on: consume is granted to {names}, produce to {producing}; super users may do both."
    return Finding(Cause.ROLE, State.NOTE, sentence, "Check another role by --role ROLE.", facts.subscription)


def not_seen(facts: Facts) -> Finding | None:
    """Finds facts that the caller may not see."""
    if not facts.unseen:
        return None
    sentence = f"Your role may not see {listed(facts.unseen)}: causes that depend on them are not found."
    return Finding(
        Cause.NOT_SEEN, State.NOTE, sentence, "Run it as an administrator of the tenant, or as a super user."
    )
