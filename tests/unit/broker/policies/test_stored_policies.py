"""Stored policies of an older version, with numbers that are refused today: the broker starts, serves and answers."""

import json
import re
from typing import Any

import pytest

from spark_pulsar.broker.policies import documents
from spark_pulsar.ledger.state.documents import GLOBAL_TOPIC_POLICIES, TOPIC_POLICIES, DocumentSet, NamespaceSet
from spark_pulsar.model.limits import INT, LONG, MAX_PARTITIONS
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies.effective_policies import DispatchRate, RetentionPolicy
from tests.unit.admin.test_app import BASE, call
from tests.unit.broker.world import TOPIC, World, entry, producing

NAMESPACE = "/admin/v2/namespaces/public/default"
NAME = TopicName.parse(TOPIC)
HUGE = 10**30
OLD: dict[str, Any] = {
    "retention_policies": {"retentionTimeInMinutes": 2**31, "retentionSizeInMB": HUGE},
    "message_ttl_in_seconds": 10**12,
    "backlog_quota_map": {
        "destination_storage": {"limit": HUGE, "limitSize": HUGE, "limitTime": HUGE, "policy": "producer_exception"},
        "message_age": {"limit": -1, "limitSize": -1, "limitTime": -HUGE, "policy": "producer_request_hold"},
    },
    "publish_rate": {"publishThrottlingRateInMsg": HUGE, "publishThrottlingRateInByte": HUGE},
    "dispatch_rate": {
        "dispatchThrottlingRateInMsg": HUGE,
        "dispatchThrottlingRateInByte": HUGE,
        "ratePeriodInSecond": HUGE,
    },
    "subscription_dispatch_rate": {"dispatchThrottlingRateInMsg": HUGE, "dispatchThrottlingRateInByte": 2**40},
    "subscribe_rate": {"subscribeThrottlingRatePerConsumer": HUGE, "ratePeriodInSecond": HUGE},
    "deduplicationSnapshotIntervalSeconds": HUGE,
    "compaction_threshold": HUGE,
    "subscription_expiration_time_minutes": HUGE,
    "inactive_topic_policies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": HUGE,
        "deleteWhileInactive": True,
    },
    "delayed_delivery_policies": {
        "tickTime": HUGE,
        "active": True,
        "maxDeliveryDelayInMillis": HUGE,
        "maxDelayInMillis": HUGE,
    },
    "max_producers_per_topic": HUGE,
    "max_consumers_per_topic": HUGE,
    "max_consumers_per_subscription": HUGE,
    "max_subscriptions_per_topic": HUGE,
    "max_unacked_messages_per_consumer": HUGE,
    "max_unacked_messages_per_subscription": HUGE,
    "max_topics_per_namespace": HUGE,
    "autoTopicCreationOverride": {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": INT,
    },
}
PATHS = {
    "retention": {"retentionTimeInMinutes": INT, "retentionSizeInMB": LONG},
    "messageTTL": INT,
    "publishRate": {"publishThrottlingRateInMsg": INT, "publishThrottlingRateInByte": LONG},
    "compactionThreshold": LONG,
    "maxProducersPerTopic": INT,
    "autoTopicCreation": {
        "allowAutoTopicCreation": True,
        "topicType": "partitioned",
        "defaultNumPartitions": MAX_PARTITIONS,
    },
    "properties": {"kept": "as it is"},
}


def restarted_with(namespace: dict[str, Any], topic: dict[str, Any] | None = None) -> World:
    world, client = producing()
    client.store(1, entry("before"))
    client.open_consumer("s", 1)
    world.ask(lambda core: core.append(NamespaceSet("public/default", json.dumps(namespace))))
    if topic is not None:
        for kind in (TOPIC_POLICIES, GLOBAL_TOPIC_POLICIES):
            world.ask(lambda core, kind=kind: core.append(DocumentSet(kind, TOPIC, json.dumps(topic))))
    return world.restart()


def serves(world: World) -> bool:
    client = world.connect_producer()
    client.store(1, entry("after"))
    client.open_consumer("s", 1, permits=10)
    world.advance(10_000)
    return not client.closed


def test_numbers_that_no_type_holds_are_the_nearest_that_it_does() -> None:
    # covers RET-1, TTL-1, BQ-1, BQ-2
    world = restarted_with({**OLD, "properties": {"kept": "as it is"}}, OLD)
    assert serves(world)
    found = world.core.policies_of(NAME)
    assert found.retention == RetentionPolicy(LONG, INT)
    assert (found.message_ttl_s, found.max_topics, found.auto_topic_creation.partitions) == (INT, INT, MAX_PARTITIONS)
    assert (found.size_quota.limit_bytes, found.size_quota.limit_time_s) == (LONG, INT)
    assert found.age_quota.limit_time_s == -INT - 1
    assert (found.delayed_delivery.max_delay_ms, found.inactive_topic.max_inactive_s) == (LONG, INT)
    for path, answer in PATHS.items():
        assert call(world, "GET", f"{NAMESPACE}/{path}")[::2] == (200, answer)
    assert call(world, "GET", NAMESPACE)[0] == 200
    assert call(world, "GET", f"{BASE}/t/retention")[2] == PATHS["retention"]
    quotas = call(world, "GET", f"{NAMESPACE}/backlogQuotaMap")[2]
    assert quotas["destination_storage"] == {
        "limit": LONG,
        "limitSize": LONG,
        "limitTime": INT,
        "policy": "producer_exception",
    }
    assert len(list(documents.notes(world.state))) == 3 * (len(OLD) + 1)


@pytest.mark.parametrize("member", [*OLD, "schema_compatibility_strategy", "subscription_types_enabled"])
def test_what_cannot_be_read_at_all_is_left_out_and_the_others_hold(member: str) -> None:
    # covers TTL-1
    other = "message_ttl_in_seconds" if member != "message_ttl_in_seconds" else "max_producers_per_topic"
    world = restarted_with({member: {"limit": []} if member == "publish_rate" else ["?"], other: 7}, {member: "?"})
    assert serves(world)
    found = world.core.policies_of(NAME)
    assert 7 in (found.message_ttl_s, found.max_producers)
    assert call(world, "GET", NAMESPACE)[0] == 200
    told = list(documents.notes(world.state))
    assert any(member in note and "cannot be read" in note for note in told) or member == "publish_rate"


def test_what_is_left_out_stays_stored_when_another_policy_is_set() -> None:
    world = restarted_with({"retention_policies": "?", "max_producers_per_topic": 3})
    assert call(world, "POST", f"{NAMESPACE}/messageTTL", b"9")[0] == 204
    stored = json.loads(world.state.namespaces["public/default"])
    assert stored == {"retention_policies": "?", "max_producers_per_topic": 3, "message_ttl_in_seconds": 9}
    assert (
        call(world, "POST", f"{NAMESPACE}/retention", b'{"retentionTimeInMinutes": 3, "retentionSizeInMB": 4}')[0]
        == 204
    )
    assert world.core.policies_of(NAME).retention == RetentionPolicy(4, 3)
    assert not list(documents.notes(world.state))


def test_policies_of_today_are_read_as_they_are() -> None:
    world = World()
    for path, body in (("retention", b'{"retentionTimeInMinutes": 3, "retentionSizeInMB": 4}'), ("messageTTL", b"9")):
        assert call(world, "POST", f"{NAMESPACE}/{path}", body)[0] == 204
    text = world.state.namespaces["public/default"]
    assert documents.stored(text) == (json.loads(text), ())


def test_of_policies_by_name_only_what_is_wrong_is_changed() -> None:
    # covers SUB-7, T-16
    rate = {"dispatchThrottlingRateInMsg": 5, "dispatchThrottlingRateInByte": 6, "ratePeriodInSecond": 7}
    stored = {
        "right": {"dispatchRate": rate},
        "large": {"dispatchRate": rate | {"dispatchThrottlingRateInMsg": HUGE}},
        "no number": {"dispatchRate": rate | {"dispatchThrottlingRateInMsg": "?"}},
        "no policy": "?",
        "nothing": None,
    }
    world = restarted_with({}, {"subscriptionPolicies": stored})
    assert serves(world)
    found = world.core.policies_of(NAME).dispatch_rates_by_name
    assert found == {"right": DispatchRate(5, 6, 7), "large": DispatchRate(INT, 6, 7)}
    told = set(documents.notes(world.state))
    assert len(told) == 4
    for name, what in {
        "large": "dispatchRate is .* a number in it was out of range",
        "no number": "dispatchRate is left out, it cannot be read: .*want a whole number",
        "no policy": "is left out",
        "nothing": "is left out",
    }.items():
        assert [note for note in told if re.search(f"subscriptionPolicies: {name}:? {what}", note)], (name, told)
    assert call(world, "GET", f"{BASE}/t/right/dispatchRate")[2]["dispatchThrottlingRateInMsg"] == 5
