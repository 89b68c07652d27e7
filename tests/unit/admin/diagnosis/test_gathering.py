"""The requests of a diagnosis and the facts that come of their answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_pulsar.admin.diagnosis.facts import Facts, Rate
from spark_pulsar.admin.diagnosis.gathering import Reply, gather

BASE = "/admin/v2/persistent/public/default/orders"
TOPIC = "persistent://public/default/orders"


def gathered(answers: Mapping[str, Reply], subscription: str = "") -> tuple[Facts, list[list[str]]]:
    """The facts, and the paths of each round; what has no answer here is 404."""
    rounds, paths = gather(TOPIC, subscription), []
    requests = next(rounds)
    try:
        while True:
            paths.append([request.path for request in requests])
            requests = rounds.send([answers.get(request.path, Reply(404, "not there")) for request in requests])
    except StopIteration as end:
        return end.value, paths


def ok(value: Any) -> Reply:
    return Reply(200, value, at_ms=1_000)


def test_a_partitioned_topic_takes_as_many_requests_as_another() -> None:
    # covers WHY-1
    partition = {"msgInCounter": 2, "subscriptions": {"billing": {"msgBacklog": 2, "consumers": []}}}
    answers = {
        f"{BASE}/partitions": ok({"partitions": 1_000}),
        f"{BASE}/partitioned-stats": ok(
            {"partitions": {f"{TOPIC}-partition-{number}": partition for number in range(1_000)}}
        ),
    }
    facts, paths = gathered(answers, "billing")
    assert len(facts.logs) == 1_000
    assert [log.number for log in facts.logs[:3]] == [0, 1, 2]
    assert [len(round_) for round_ in paths] == [1, 19, 11]
    assert paths[2][-1] == "/admin/v3/transactions/slowTransactions/0"


def test_the_narrowest_policy_counts() -> None:
    # covers WHY-1, WHY-7
    answers = {
        f"{BASE}/partitions": ok({"partitions": 0}),
        f"{BASE}/stats": ok({"subscriptions": {}}),
        f"{BASE}/messageTTL": ok(60),
        f"{BASE}/permissions": ok({"app": ["consume"]}),
        "/admin/v2/namespaces/public/default": ok(
            {
                "message_ttl_in_seconds": 7,
                "max_producers_per_topic": 3,
                "subscriptionDispatchRate": {"standalone": {"dispatchThrottlingRateInMsg": 4}},
                "retention_policies": {"retentionTimeInMinutes": 5, "retentionSizeInMB": 6},
                "backlog_quota_map": {"destination_storage": {"limit": 9, "policy": "producer_exception"}},
                "auth_policies": {"namespace_auth": {"lead": ["produce", "consume"]}},
                "is_allow_auto_update_schema": False,
            }
        ),
        "/admin/v2/brokers/configuration/runtime": Reply(403, "no"),
    }
    facts, _ = gathered(answers)
    policies, roles = facts.policies, facts.roles
    assert (policies.ttl_s, policies.max_producers, policies.retention) == (60, 3, (5, 6))
    assert policies.rates == {"subscription": Rate(4)}
    assert policies.quotas == {"destination_storage": (9, "producer_exception")}
    assert not policies.auto_update_schema
    assert (roles.is_on, roles.consuming, roles.producing) == (None, frozenset({"app", "lead"}), frozenset({"lead"}))
    assert facts.unseen == ("configuration of the broker",)


def test_older_statistics_have_ranges_as_text() -> None:
    consumer = {"consumerName": "a1", "keyHashRanges": ["[0, 99]"], "address": "/10.0.0.7:1", "connectedSince": ""}
    answers = {
        f"{BASE}/partitions": ok({"partitions": 0}),
        f"{BASE}/stats": ok({"subscriptions": {"billing": {"msgBacklog": 1, "consumers": [consumer]}}}),
        f"{BASE}/subscription/billing/position/1": Reply(
            200, headers={"x-pulsar-deliver-at-time": "2026-11-28T12:00:00Z", "x-pulsar-is-encrypted": "true"}
        ),
    }
    facts, _ = gathered(answers)
    (read,) = facts.logs[0].subscriptions["billing"].consumers
    assert (read.hash_ranges, read.address, read.since_ms) == (((0, 99),), "10.0.0.7:1", 0)
    message = facts.first_messages["billing"]
    assert (message.deliver_at_ms, message.is_encrypted) == (1_795_867_200_000, True)
