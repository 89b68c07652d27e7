"""Policies of namespaces and topics over REST: set, read, refuse, remove."""

from __future__ import annotations

from typing import Any

import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.test_namespaces import fresh, reason

RETENTION = {"retentionTimeInMinutes": 180, "retentionSizeInMB": 10240}
PERSISTENCE = {
    "bookkeeperEnsemble": 1,
    "bookkeeperWriteQuorum": 1,
    "bookkeeperAckQuorum": 1,
    "managedLedgerMaxMarkDeleteRate": 10.0,
}
QUOTA = {"limitSize": 2147483648, "limitTime": -1, "policy": "producer_request_hold"}
SHOWN_QUOTA = {"limit": 2147483648, **QUOTA}


@pytest.mark.parametrize(
    ("level", "name", "verb", "value"),
    [
        ("namespace", "retention", "POST", RETENTION),
        ("namespace", "retention", "POST", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}),
        ("namespace", "messageTTL", "POST", 120),
        ("namespace", "messageTTL", "POST", 0),
        ("namespace", "persistence", "POST", PERSISTENCE),
        ("namespace", "deduplication", "POST", True),
        ("namespace", "deduplication", "POST", False),
        ("namespace", "compactionThreshold", "PUT", 1000),
        ("namespace", "compactionThreshold", "PUT", 0),
        ("namespace", "subscriptionExpirationTime", "POST", 5),
        ("topic", "retention", "POST", RETENTION),
        ("topic", "persistence", "POST", PERSISTENCE),
        ("topic", "deduplicationEnabled", "POST", True),
        ("topic", "deduplicationSnapshotInterval", "POST", 7),
        ("topic", "compactionThreshold", "POST", 1000),
        ("topic", "compactionThreshold", "POST", 0),
    ],
)
def test_a_policy_is_set_read_and_removed(
    broker: Broker, request: pytest.FixtureRequest, level: str, name: str, verb: str, value: Any
) -> None:
    # covers ADM-66, ADM-67, T-3, T-4, T-5
    path = f"{request.getfixturevalue(level)}/{name}"
    assert broker.rest("GET", path) == (200, "")
    assert broker.rest(verb, path, value) == (204, "")
    assert broker.rest("GET", path) == (200, value)
    assert broker.rest("DELETE", path) == (204, "")
    assert broker.rest("GET", path) == (200, "")
    assert broker.rest("DELETE", path) == (204, "")


def test_the_snapshot_interval_is_removed_by_null(broker: Broker, namespace: str) -> None:
    # covers ADM-66
    path = f"{namespace}/deduplicationSnapshotInterval"
    assert broker.rest("GET", path) == (200, "")
    assert broker.rest("POST", path, 10) == (204, "")
    assert broker.rest("GET", path) == (200, 10)
    assert reason(broker.rest("POST", path, -1)) == (412, "interval must be greater than or equal to 0")


def test_the_ttl_of_a_topic_stands_in_the_query(broker: Broker, topic: str) -> None:
    # covers ADM-67
    path = f"{topic}/messageTTL"
    assert broker.rest("GET", path) == (200, "")
    assert broker.rest("POST", f"{path}?messageTTL=30") == (204, "")
    assert broker.rest("GET", path) == (200, 30)
    assert reason(broker.rest("POST", f"{path}?messageTTL=-1")) == (412, "Invalid value for message TTL")
    assert broker.rest("POST", f"{path}?messageTTL=x")[0] == 404
    assert broker.rest("POST", path, 60)[0] == 204
    assert broker.rest("GET", path) == (200, "")
    assert broker.rest("POST", f"{path}?messageTTL=30") == (204, "")
    assert broker.rest("DELETE", f"{path}?messageTTL=0") == (204, "")
    assert broker.rest("GET", path) == (200, "")


def test_what_is_applied_to_a_topic(broker: Broker, namespace: str, topic: str) -> None:
    # covers ADM-67 (applied)
    none = {"limit": -1, "limitSize": -1, "limitTime": -1, "policy": "producer_request_hold"}
    for name, default, on_namespace in (
        ("retention", {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0}, RETENTION),
        ("messageTTL", 0, 120),
        ("deduplicationEnabled", False, None),
        ("compactionThreshold", 0, None),
        ("deduplicationSnapshotInterval", "", None),
    ):
        assert broker.rest("GET", f"{topic}/{name}?applied=true") == (200, default), name
        if on_namespace is not None:
            assert broker.rest("POST", f"{namespace}/{name}", on_namespace)[0] == 204
            assert broker.rest("GET", f"{topic}/{name}?applied=true") == (200, on_namespace), name
            assert broker.rest("GET", f"{topic}/{name}") == (200, ""), name
    quotas = broker.rest("GET", f"{topic}/backlogQuotaMap?applied=true")
    assert quotas == (200, {"destination_storage": none, "message_age": none})
    assert broker.rest("POST", f"{topic}/messageTTL?messageTTL=7")[0] == 204
    assert broker.rest("GET", f"{topic}/messageTTL?applied=true") == (200, 7)


def test_a_policy_for_all_clusters_is_another_one(broker: Broker, topic: str) -> None:
    # covers ADM-67 (isGlobal)
    path = f"{topic}/messageTTL"
    assert broker.rest("POST", f"{path}?messageTTL=30&isGlobal=true") == (204, "")
    assert broker.rest("GET", path) == (200, "")
    assert broker.rest("GET", f"{path}?isGlobal=true") == (200, 30)


def test_policies_of_a_partitioned_topic_are_its_own(broker: Broker) -> None:
    # covers ADM-67
    path = topic_path(broker.topic(partitions=2))
    assert broker.rest("POST", f"{path}/retention", RETENTION) == (204, "")
    assert broker.rest("GET", f"{path}/retention") == (200, RETENTION)
    refused = (412, "Not allowed to set/get topic policy for a partition")
    assert reason(broker.rest("GET", f"{path}-partition-0/retention")) == refused
    assert reason(broker.rest("POST", f"{path}-partition-0/retention", RETENTION)) == refused
    topic = broker.topic()
    path = topic_path(topic)
    missing = (404, f"Topic {topic} not found")
    assert reason(broker.rest("GET", f"{path}/retention")) == missing
    assert reason(broker.rest("POST", f"{path}/retention", RETENTION)) == missing
    assert reason(broker.rest("GET", f"/admin/v2/persistent/public/{fresh('no')}/t/retention"))[0] == 404


@pytest.mark.parametrize("kind", ["destination_storage", "message_age"])
@pytest.mark.parametrize("level", ["namespace", "topic"])
def test_backlog_quotas(broker: Broker, request: pytest.FixtureRequest, level: str, kind: str) -> None:
    # covers BQ-1, BQ-2 (REST), ADM-66, ADM-67
    path = request.getfixturevalue(level)
    assert broker.rest("GET", f"{path}/backlogQuotaMap") == (200, {})
    assert broker.rest("POST", f"{path}/backlogQuota?backlogQuotaType={kind}", QUOTA) == (204, "")
    assert broker.rest("GET", f"{path}/backlogQuotaMap") == (200, {kind: SHOWN_QUOTA})
    assert broker.rest("DELETE", f"{path}/backlogQuota?backlogQuotaType={kind}") == (204, "")
    assert broker.rest("GET", f"{path}/backlogQuotaMap") == (200, {})
    assert broker.rest("POST", f"{path}/backlogQuota?backlogQuotaType=nonsense", QUOTA)[0] == 404


def test_old_forms_of_a_quota(broker: Broker, namespace: str) -> None:
    # covers ADM-66, T-16
    path = f"{namespace}/backlogQuota"
    assert broker.rest("POST", path, {"limit": "10240", "policy": "producer_request_hold"}) == (204, "")
    shown = broker.rest("GET", f"{namespace}/backlogQuotaMap")[1]["destination_storage"]
    assert (shown["limitSize"], shown["limitTime"]) == (10240, 0)
    assert broker.rest("POST", path, {"policy": "producer_exception", "limitSize": 10240}) == (204, "")
    for policy in ({}, {"policy": None}):
        status, answer = broker.rest("POST", path, {"limitSize": 1, **policy})
        assert (status, "the attribute policy cannot be null" in answer["reason"]) == (400, True)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"retentionTimeInMinutes": 0, "retentionSizeInMB": 10}, "Setting a single time or size limit to 0 is invalid"),
        ({"retentionTimeInMinutes": 10}, "Setting a single time or size limit to 0 is invalid"),
        ({"retentionTimeInMinutes": -1, "retentionSizeInMB": 0}, "Setting a single time or size limit to 0 is invalid"),
        ({"retentionTimeInMinutes": -2, "retentionSizeInMB": 1}, "Invalid retention policy: time limit must be >= -1"),
        ({"retentionTimeInMinutes": 1, "retentionSizeInMB": -2}, "Invalid retention policy: size limit must be >= -1"),
    ],
)
def test_retention_is_refused(broker: Broker, namespace: str, topic: str, body: dict[str, int], text: str) -> None:
    # covers RET-1, X14
    for path in (namespace, topic):
        status, answer = broker.rest("POST", f"{path}/retention", body)
        assert (status, text in answer["reason"]) == (400, True), answer


@pytest.mark.parametrize(
    ("name", "verb", "value", "status", "text"),
    [
        ("messageTTL", "POST", -1, 412, "Invalid value for message TTL, message TTL must >= 0"),
        ("subscriptionExpirationTime", "POST", -1, 412, "Invalid value for subscription expiration time"),
        ("compactionThreshold", "PUT", -1, 412, "compactionThreshold must be 0 or more"),
        (
            "persistence",
            "POST",
            {**PERSISTENCE, "bookkeeperWriteQuorum": 2},
            400,
            "Bookkeeper Ensemble (1) >= WriteQuorum (2) >= AckQuorum (1)",
        ),
        ("persistence", "POST", {**PERSISTENCE, "bookkeeperEnsemble": 6}, 400, "Bookkeeper-Ensemble must be <= 5 and"),
    ],
)
def test_values_are_refused(
    broker: Broker, namespace: str, name: str, verb: str, value: Any, status: int, text: str
) -> None:
    # covers ADM-66
    answer = broker.rest(verb, f"{namespace}/{name}", value)
    assert (answer[0], text in answer[1]["reason"]) == (status, True), answer


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("deduplicationSnapshotInterval", "interval must be 0 or more"),
        ("compactionThreshold", "Invalid value for compactionThreshold"),
    ],
)
def test_values_of_topics_are_refused(broker: Broker, topic: str, name: str, text: str) -> None:
    # covers ADM-67
    assert reason(broker.rest("POST", f"{topic}/{name}", -1)) == (412, text)


def _megabytes(size_mb: int, minutes: int = -1) -> dict[str, int]:
    return {"retentionSizeInMB": size_mb, "retentionTimeInMinutes": minutes}


@pytest.mark.parametrize("level", ["namespace", "topic"])
def test_retention_and_quota_must_fit(broker: Broker, request: pytest.FixtureRequest, level: str) -> None:
    # covers RET-3
    path = request.getfixturevalue(level)
    quota = f"{path}/backlogQuota"
    too_large = (
        412,
        f"Backlog Quota exceeds configured retention quota for {level}. Please increase retention quota and retry",
    )
    assert broker.rest("POST", f"{path}/retention", _megabytes(10))[0] == 204
    assert reason(broker.rest("POST", quota, {**QUOTA, "limitSize": 10 << 20})) == too_large
    assert broker.rest("POST", quota, {**QUOTA, "limitSize": (10 << 20) - 1}) == (204, "")
    status, text = reason(broker.rest("POST", f"{path}/retention", _megabytes(5)))
    assert (status, text.startswith(f"Retention Quota must exceed configured backlog quota for {level}.")) == (
        412,
        True,
    )
    assert broker.rest("POST", f"{path}/retention", _megabytes(-1, 10))[0] == 204
    timed = {**QUOTA, "limitSize": -1}
    assert reason(broker.rest("POST", quota, {**timed, "limitTime": 600})) == too_large
    assert broker.rest("POST", quota, {**timed, "limitTime": 599}) == (204, "")
    assert broker.rest("POST", f"{path}/backlogQuota?backlogQuotaType=message_age", {**timed, "limitTime": 9999})[
        0
    ] in (204, 412)


def test_policies_show_in_the_whole(broker: Broker, namespace: str) -> None:
    # covers ADM-65
    assert broker.rest("POST", f"{namespace}/retention", RETENTION)[0] == 204
    assert broker.rest("POST", f"{namespace}/messageTTL", 60)[0] == 204
    assert broker.rest("POST", f"{namespace}/deduplication", True)[0] == 204
    assert broker.rest("POST", f"{namespace}/backlogQuota?backlogQuotaType=message_age", QUOTA)[0] == 204
    policies = broker.rest("GET", namespace)[1]
    assert policies["retention_policies"] == RETENTION
    assert policies["message_ttl_in_seconds"] == 60
    assert policies["deduplicationEnabled"] is True
    assert policies["backlog_quota_map"] == {"message_age": SHOWN_QUOTA}
