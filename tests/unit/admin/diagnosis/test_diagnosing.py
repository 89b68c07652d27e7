"""The diagnosis of facts that no test can stage on both brokers, a row a case."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest

from spark_pulsar.admin.diagnosis.diagnosing import diagnose
from spark_pulsar.admin.diagnosis.facts import (
    Consumer,
    Facts,
    FirstMessage,
    Log,
    OpenTransaction,
    Policies,
    Publisher,
    Rate,
    Roles,
    Subscription,
    together,
)
from spark_pulsar.admin.diagnosis.findings import Finding, State, counted, listed, time_text
from tests.advice import check_commands

NOON_MS = 1_795_867_200_000
TOPIC = "persistent://public/default/orders"
A1 = Consumer("a1", "10.0.0.7:51312", NOON_MS, permits=990, sent=10)


def facts(
    *,
    log: dict[str, Any] | None = None,
    policies: dict[str, Any] | None = None,
    more: dict[str, Any] | None = None,
    **subscription: Any,
) -> Facts:
    """Facts of a Shared subscription with one consumer, and what differs from it."""
    settings = {"type": "Shared", "consumers": (A1,)} | subscription
    billing = Subscription("billing", **settings)
    topic = Log(TOPIC, subscriptions={"billing": billing}, **({"stored_bytes": 100, "published": 5} | (log or {})))
    made = Facts(TOPIC, "billing", logs=(topic,), policies=Policies(**(policies or {})), now_ms=NOON_MS, zone=UTC)
    return replace(made, **(more or {}))


def first(of: Facts) -> Finding:
    return diagnose(of)[0]


CASES: list[tuple[str, Facts, str]] = [
    (
        "not-served",
        Facts(TOPIC, refusal=(503, "Namespace bundle is being unloaded"), now_ms=NOON_MS),
        "The topic orders is not served: Namespace bundle is being unloaded.",
    ),
    (
        "unacked-limit-of-broker",
        facts(
            is_blocked=True,
            unacked=10,
            backlog=50,
            policies={"unacked_on_subscription": 200_000, "unacked_on_broker": 1_000},
        ),
        'The broker has reached its limit of 1,000 unacknowledged messages, and sends nothing to "billing", which has '
        "10 unacknowledged messages.",
    ),
    (
        "unexplained",
        facts(backlog=5, consumers=(replace(A1, sent=0),)),
        '5 messages of "billing" wait though its consumers have 990 permits, and nothing was sent in the last 1.0 s; '
        "the statistics show no reason.",
    ),
    (
        "transaction-open",
        facts(
            backlog=3,
            sent=3,
            unacked=3,
            more={"transactions": (OpenTransaction("(0,7)", NOON_MS - 60_000, produces=False),)},
        ),
        'Messages of "billing" are acknowledged in the open transaction (0,7) since 11:59:00, and wait for its end.',
    ),
    (
        "transaction-open",
        facts(backlog=3, log={"open_transactions": 2}),
        '3 messages of "billing" wait for 2 open transactions: consumers receive nothing behind its first message.',
    ),
    (
        "delayed",
        facts(backlog=2, delayed=2, more={"first_messages": {"billing": FirstMessage(NOON_MS + 300_000)}}),
        '2 messages of "billing" are delayed, the first one until 12:05:00; no other message waits.',
    ),
    (
        "no-permits",
        facts(backlog=20, consumers=(replace(A1, permits=0, unacked=1_000, per_entry=100, sent=1_000),), sent=1_000),
        'Consumer "a1" of "billing" has no permits: its receive queue is full (1,000 sent), since the application does '
        "not receive; 20 entries of about 100 messages wait.",
    ),
    (
        "dispatch-rate",
        facts(
            backlog=5_000,
            throttled={"topic": 3},
            throttled_lately=frozenset({"topic"}),
            sent_lately=10,
            policies={"rates": {"topic": Rate(10, 2_048, 2)}},
        ),
        'The dispatch rate of the topic of 10 messages and 2,048 bytes every 2 seconds holds "billing" back: 5,000 '
        "messages wait, 10 were sent in the last 1.0 s.",
    ),
    (
        "disk-full",
        facts(sent=1, more={"disk_reason": "its disk has 3 MB free"}),
        "The broker takes no messages: its disk has 3 MB free.",
    ),
    (
        "backlog-quota",
        facts(
            sent=1,
            log={"backlog_age_s": 70, "publishers": (Publisher("p"),)},
            policies={"quotas": {"message_age": (60, "producer_request_hold")}},
        ),
        "The oldest message of the backlog is at 70 s, beyond the quota of 60 s (producer_request_hold): producers "
        'wait. "billing" has the largest backlog (0).',
    ),
    (
        "producer-exclusive",
        facts(
            sent=1,
            log={"publishers": (Publisher("p1", "10.0.0.8:1", NOON_MS, "Exclusive"),), "waiting_publishers": 2},
        ),
        'Producer "p1" from 10.0.0.8:1 has orders for itself (Exclusive) since 12:00:00: others are refused or wait; '
        "2 producers wait for it.",
    ),
    (
        "role",
        facts(sent=1, more={"role": "app", "roles": Roles(True, frozenset({"other"}), frozenset({"app"}))}),
        "No grant of the topic or its namespace allows the role app to consume on orders.",
    ),
]
"""Cause of the first finding, facts, and its sentence."""


@pytest.mark.parametrize(("cause", "case", "sentence"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)])
def test_the_most_direct_cause_comes_first(cause: str, case: Facts, sentence: str) -> None:
    # covers WHY-2, WHY-3, WHY-4, WHY-6, WHY-7
    finding = first(case)
    assert (finding.cause, finding.state, finding.sentence) == (cause, State.CAUSE, sentence)
    assert finding.advice
    check_commands(finding.advice)


NOTES: list[tuple[str, Facts, str]] = [
    ("filtered", facts(sent=1, rejected=4), 'Entry filters refused 4 messages for "billing".'),
    (
        "evicted",
        facts(sent=1, log={"evicted": 3}),
        "The backlog quota of the topic evicted messages from its slowest subscriptions 3 times.",
    ),
    (
        "replicated",
        facts(sent=1, is_replicated=True, policies={"clusters": ("east", "west")}),
        '"billing" is replicated between east and west: what another cluster acknowledged is not sent here.',
    ),
    (
        "max-producers",
        facts(sent=1, log={"publishers": (Publisher("p"),)}, policies={"max_producers": 1}),
        "orders has 1 producer, the most that it may have: one more is refused.",
    ),
    (
        "encryption-required",
        facts(sent=1, policies={"encryption_required": True}),
        "The namespace requires encryption: a producer without an encryption key is refused.",
    ),
    (
        "not-seen",
        facts(sent=1, more={"unseen": ("policies",)}),
        "Your role may not see policies: causes that depend on them are not found.",
    ),
    (
        "role",
        facts(sent=1, more={"roles": Roles(True, frozenset({"app"}))}),
        "Authorization is on: consume is granted to app, produce to no role; super users may do both.",
    ),
    (
        "expired",
        facts(sent=9, expired=4, last_expire_ms=NOON_MS - 1_000, last_sent_ms=NOON_MS, policies={"ttl_s": 60}),
        '4 messages of "billing" expired by the time to live of 60 s before consumption, the last at 11:59:59.',
    ),
    (
        "schema",
        facts(sent=1, policies={"schema_strategy": "FULL"}, more={"schema": ("AVRO", 3)}),
        "orders has a schema of type AVRO, version 3: a producer whose schema is not compatible (FULL) is refused.",
    ),
]


@pytest.mark.parametrize(("cause", "case", "sentence"), NOTES, ids=[case[0] for case in NOTES])
def test_a_note_stands_before_that_all_is_well(cause: str, case: Facts, sentence: str) -> None:
    # covers WHY-2, WHY-6, WHY-7
    note, end = diagnose(case)
    assert (note.cause, note.state, note.sentence) == (cause, State.NOTE, sentence)
    check_commands(note.advice)
    assert (end.cause, end.state) == ("all-acknowledged", State.OK)


def parted(*statistics: dict[str, Any]) -> Facts:
    """Facts of a topic whose partitions have these statistics."""
    logs = tuple(
        Log(
            f"{TOPIC}-partition-{number}",
            number,
            stored_bytes=1,
            published=9,
            subscriptions={"billing": Subscription("billing", **({"type": "Shared", "consumers": (A1,)} | values))},
        )
        for number, values in enumerate(statistics)
    )
    return Facts(TOPIC, "billing", partitions=len(logs), logs=logs, now_ms=NOON_MS, zone=UTC)


def test_partitions_with_one_cause_are_one_finding() -> None:
    # covers WHY-2
    full = {"backlog": 7, "consumers": (replace(A1, permits=0),), "sent": 10}
    flowing = {"sent": 50, "sent_lately": 20, "backlog": 1}
    cause, end = diagnose(parted(full, flowing, full))
    assert (cause.cause, cause.partitions) == ("no-permits", (0, 2))
    assert cause.sentence.endswith("14 messages wait (in partitions 0 and 2 of 3).")
    assert (end.cause, end.sentence) == (
        "received",
        '"billing" received 20 messages in the last 1.0 s ("a1"); its backlog is 1.',
    )


def test_a_thousand_partitions_take_no_time() -> None:
    # covers WHY-2
    (cause,) = diagnose(parted(*[{"backlog": 3, "consumers": ()}] * 1_000))
    assert (cause.cause, cause.partitions) == ("no-consumer", ())
    assert cause.sentence == 'No consumer is connected to "billing"; its 3,000 entries wait.'


def test_what_a_restarted_broker_does_not_know_is_not_said() -> None:
    # covers WHY-3
    (end,) = diagnose(facts(log={"published": 0, "entries": 5, "had_entries": True}))
    assert (end.cause, end.state) == ("all-acknowledged", State.OK)
    assert end.sentence == (
        '"billing" has no message before it; nothing new was published, and no producer is connected.'
    )


def test_the_brokers_own_subscription_is_left_out() -> None:
    # covers WHY-2
    log = Log(TOPIC, subscriptions={"__compaction": Subscription("__compaction", backlog=3)}, entries=3)
    (finding,) = diagnose(Facts(TOPIC, logs=(log,), now_ms=NOON_MS))
    assert finding.cause == "no-subscription"


def test_consumers_of_partitions_are_one_by_name() -> None:
    first_log, second_log = parted({"backlog": 1}, {"backlog": 2}).logs
    (consumer,) = together((first_log, second_log)).subscriptions["billing"].consumers
    assert (consumer.permits, consumer.sent) == (1_980, 20)


def test_words() -> None:
    assert [counted(number, "message") for number in (0, 1, 2_000)] == ["0 messages", "1 message", "2,000 messages"]
    assert listed("abc") == "a, b and c"
    assert listed("a") == "a"
    assert listed(range(8)) == "0, 1, 2, 3, 4 and 3 more"
    assert time_text(NOON_MS - 86_400_000, NOON_MS, UTC) == "2026-11-27 12:00:00"
