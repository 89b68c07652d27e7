"""Values of policies: what is read, what is refused, what is answered."""

from typing import Any

import pytest

from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.limits import INT, LONG
from spark_pulsar.model.policies.effective_policies import (
    BacklogQuota,
    InactiveTopicPolicy,
    PersistencePolicy,
    RetentionPolicy,
    check_quota_fits,
)
from spark_pulsar.model.policies.json_values import InvalidPolicy, MalformedPolicy, at_least_zero, truth


@pytest.mark.parametrize(
    ("body", "size_mb", "time_minutes"),
    [
        ({"retentionTimeInMinutes": 180, "retentionSizeInMB": 10240}, 10240, 180),
        ({"retentionTimeInMinutes": "180", "retentionSizeInMB": 3.5, "other": 1}, 3, 180),
        ({"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}, -1, -1),
        ({"retentionTimeInMinutes": -1, "retentionSizeInMB": 5}, 5, -1),
        ({}, 0, 0),
    ],
)
def test_retention_is_read_and_answered(body: dict[str, Any], size_mb: int, time_minutes: int) -> None:
    # covers RET-1, T-16
    value = RetentionPolicy.from_json(body)
    assert value == RetentionPolicy(size_mb, time_minutes)
    assert RetentionPolicy.from_json(value.to_json()) == value


def test_limits_of_retention_in_other_units() -> None:
    assert (RetentionPolicy(2, 3).size_bytes, RetentionPolicy(2, 3).time_ms) == (2 * 1024 * 1024, 180_000)
    assert (RetentionPolicy(-1, -1).size_bytes, RetentionPolicy(-1, -1).time_ms) == (-1, -1)
    assert [RetentionPolicy(*both).keeps_nothing for both in ((0, 0), (0, 5), (-1, -1), (1, 1))] == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("body", "quota"),
    [
        ({"limitSize": 9, "limitTime": -1, "policy": "producer_exception"}, BacklogQuota(9, -1, "producer_exception")),
        ({"limit": "10240", "policy": "producer_request_hold"}, BacklogQuota(10240, 0, "producer_request_hold")),
        ({"policy": "consumer_backlog_eviction"}, BacklogQuota(0, 0, "consumer_backlog_eviction")),
        ({"limitSize": -5, "policy": "producer_request_hold"}, BacklogQuota(-5, 0, "producer_request_hold")),
    ],
)
def test_quotas_are_read_and_answered(body: dict[str, Any], quota: BacklogQuota) -> None:
    # covers BQ-1, T-16
    assert BacklogQuota.from_json(body, "t/n") == quota
    assert BacklogQuota.from_json(quota.to_json(), "t/n") == quota
    assert quota.to_json()["limit"] == quota.limit_bytes


@pytest.mark.parametrize("policy", [None, "nonsense"])
def test_a_quota_must_say_what_happens(policy: str | None) -> None:
    with pytest.raises(MalformedPolicy, match=r"^Set namespace\[t/n\] backlog quota failed .* policy cannot be null$"):
        BacklogQuota.from_json({"limitSize": 1, "policy": policy}, "t/n")


@pytest.mark.parametrize(
    ("retention", "quota", "fits"),
    [
        (RetentionPolicy(10, -1), BacklogQuota(10 * 2**20), False),
        (RetentionPolicy(10, -1), BacklogQuota(10 * 2**20 - 1), True),
        (RetentionPolicy(-1, 10), BacklogQuota(-1, 600), False),
        (RetentionPolicy(-1, 10), BacklogQuota(-1, 599), True),
        (RetentionPolicy(-1, -1), BacklogQuota(2**50, 2**40), True),
        (RetentionPolicy(0, 0), BacklogQuota(2**50, 2**40), True),
        (RetentionPolicy(1, 1), BacklogQuota(), True),
        (RetentionPolicy(1, 1), None, True),
    ],
)
def test_retention_must_exceed_the_quota(retention: RetentionPolicy, quota: BacklogQuota | None, fits: bool) -> None:
    # covers RET-3
    assert check_quota_fits(retention, quota) is fits


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (None, "persistence policies should not be null"),
        ({"bookkeeperEnsemble": 6}, "Bookkeeper-Ensemble must be <= 5 and > 0."),
        (
            {"bookkeeperEnsemble": 1, "bookkeeperWriteQuorum": 2, "bookkeeperAckQuorum": 1},
            r"Bookkeeper Ensemble \(1\) >= WriteQuorum \(2\) >= AckQuorum \(1\)",
        ),
        ({"managedLedgerMaxMarkDeleteRate": "fast"}, "want a number"),
        ([], "want a JSON object"),
    ],
)
def test_persistence_is_refused(body: Any, reason: str) -> None:
    with pytest.raises(MalformedPolicy, match=reason):
        PersistencePolicy.from_json(body)


def test_persistence_of_nothing_is_two_everywhere() -> None:
    assert PersistencePolicy.from_json({}) == PersistencePolicy(2, 2, 2, 0.0)
    assert PersistencePolicy.from_json(PersistencePolicy().to_json()) == PersistencePolicy()


def test_inactive_topics() -> None:
    value = InactiveTopicPolicy(True, 90, "delete_when_subscriptions_caught_up")
    assert InactiveTopicPolicy.from_json(value.to_json()) == value
    with pytest.raises(MalformedPolicy, match="nonsense"):
        InactiveTopicPolicy.from_json({"inactiveTopicDeleteMode": "nonsense"})


def test_plain_values() -> None:
    assert at_least_zero("61", "no") == 61
    with pytest.raises(InvalidPolicy, match=r"^must be 0 or more$"):
        at_least_zero(-1, "must be 0 or more")
    assert [truth(value, "x") for value in (True, "true", "FALSE", 7, 0)] == [True, True, False, True, False]
    with pytest.raises(PulsarError, match="want true or false"):
        truth("maybe", "x")


@pytest.mark.parametrize("huge", [1 << 63, 10**400, -(1 << 64), 1e300, float("inf"), "9" * 30])
def test_numbers_that_no_client_could_read_are_refused(huge: Any) -> None:
    # covers RET-1, BQ-1, BQ-2, TTL-1
    for refused in (
        lambda: RetentionPolicy.from_json({"retentionSizeInMB": 1, "retentionTimeInMinutes": huge}),
        lambda: RetentionPolicy.from_json({"retentionSizeInMB": huge, "retentionTimeInMinutes": 1}),
        lambda: BacklogQuota.from_json({"limitSize": huge, "policy": "producer_exception"}, "a/b"),
        lambda: BacklogQuota.from_json({"limitTime": huge, "policy": "producer_exception"}, "a/b"),
        lambda: InactiveTopicPolicy.from_json({"maxInactiveDurationSeconds": huge}),
        lambda: at_least_zero(huge, "too much"),
    ):
        with pytest.raises(MalformedPolicy):
            refused()


def test_the_largest_numbers_are_taken() -> None:
    # covers RET-1, BQ-1
    assert RetentionPolicy.from_json({"retentionSizeInMB": INT, "retentionTimeInMinutes": INT}).size_mb == INT
    assert BacklogQuota.from_json({"limitSize": LONG, "policy": "producer_exception"}, "a/b").limit_bytes == LONG


@pytest.mark.parametrize("rate", ["nan", "inf", 10**400, None, []])
def test_a_rate_is_a_number(rate: Any) -> None:
    with pytest.raises(MalformedPolicy, match="managedLedgerMaxMarkDeleteRate"):
        PersistencePolicy.from_json({"managedLedgerMaxMarkDeleteRate": rate})
