"""Limits, types of subscriptions and what comes into being by itself, as policies of namespaces and topics."""

from __future__ import annotations

from typing import Any

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.test_namespaces import fresh, reason
from tests.eventually import eventually
from tests.raw import RawConnection

LIMITS = [
    # at the namespace, at the topic, refusal at the topic, status of an unset topic, applied when nothing is set
    ("maxProducersPerTopic", "maxProducers", "maxProducers must be 0 or more", 200, 0),
    ("maxConsumersPerTopic", "maxConsumers", "maxConsumers must be 0 or more", 200, 0),
    ("maxUnackedMessagesPerConsumer", "maxUnackedMessagesOnConsumer", "maxUnackedNum must be 0 or more", 200, 50000),
    (
        "maxUnackedMessagesPerSubscription",
        "maxUnackedMessagesOnSubscription",
        "maxUnackedNum must be 0 or more",
        200,
        200000,
    ),
    (
        "maxConsumersPerSubscription",
        "maxConsumersPerSubscription",
        "Invalid value for maxConsumersPerSubscription",
        204,
        "",
    ),
    ("maxSubscriptionsPerTopic", "maxSubscriptionsPerTopic", "maxSubscriptionsPerTopic must be 0 or more", 204, ""),
]


@pytest.mark.parametrize(("of_namespace", "of_topic", "refusal", "unset", "default"), LIMITS)
def test_limits(
    broker: Broker,
    namespace: str,
    topic: str,
    of_namespace: str,
    of_topic: str,
    refusal: str,
    unset: int,
    default: int | str,
) -> None:
    # covers ADM-66, ADM-67
    path = f"{namespace}/{of_namespace}"
    assert broker.rest("GET", path) == (200, "")
    assert broker.rest("POST", path, 7) == (204, "")
    assert broker.rest("GET", path) == (200, 7)
    assert reason(broker.rest("POST", path, -1))[0] == 412
    assert broker.rest("DELETE", path) == (204, "")
    assert broker.rest("GET", path) == (200, "")
    path = f"{topic}/{of_topic}"
    assert broker.rest("GET", path) == (unset, "")
    assert broker.rest("GET", f"{path}?applied=true")[1] == default
    assert broker.rest("POST", path, 0) == (204, "")
    assert broker.rest("GET", path) == (200, 0)
    assert reason(broker.rest("POST", path, -1)) == (412, refusal)
    assert broker.rest("DELETE", path) == (204, "")
    assert broker.rest("GET", path) == (unset, "")


def test_topics_of_a_namespace_are_limited(broker: Broker, namespace: str, topic: str) -> None:
    # covers TN-10
    path = f"{namespace}/maxTopicsPerNamespace"
    assert broker.rest("GET", path) == (200, 0)
    assert reason(broker.rest("POST", path, -1)) == (412, "maxTopicsPerNamespace must be 0 or more")
    assert broker.rest("POST", path, 1) == (204, "")
    refused = broker.rest("PUT", f"{topic}-more")
    assert reason(refused) == (409, "Exceed maximum number of topics in namespace.")
    assert broker.rest("DELETE", path) == (204, "")
    assert broker.rest("PUT", f"{topic}-more") == (204, "")


def test_types_of_subscriptions(broker: Broker, client: pulsar.Client, namespace: str, topic: str) -> None:
    # covers SUB-3, ADM-66
    assert broker.rest("GET", f"{namespace}/subscriptionTypesEnabled") == (200, [])
    assert broker.rest("GET", f"{topic}/subscriptionTypesEnabled") == (204, "")
    assert broker.rest("POST", f"{topic}/subscriptionTypesEnabled", ["Shared"]) == (204, "")
    assert broker.rest("GET", f"{topic}/subscriptionTypesEnabled") == (200, ["Shared"])
    name = f"persistent://public/{namespace.rpartition('/')[2]}/t"

    def refused() -> bool:
        try:
            client.subscribe(name, "exclusive").close()
        except pulsar.PulsarException:
            return True
        return False

    eventually(refused)
    client.subscribe(name, "shared", consumer_type=pulsar.ConsumerType.Shared)
    assert broker.rest("DELETE", f"{topic}/subscriptionTypesEnabled") == (204, "")
    eventually(lambda: not refused())


def test_limits_of_a_topic_hold_at_once(broker: Broker, client: pulsar.Client, namespace: str, topic: str) -> None:
    # covers PR-13, SUB-5, CUR-18 (levels)
    name = f"persistent://public/{namespace.rpartition('/')[2]}/t"
    assert broker.rest("POST", f"{namespace}/maxProducersPerTopic", 1) == (204, "")
    client.create_producer(name)

    def refused() -> bool:
        try:
            client.create_producer(name).close()
        except pulsar.PulsarException:
            return True
        return False

    eventually(refused)
    assert broker.rest("POST", f"{topic}/maxProducers", 2) == (204, "")
    eventually(lambda: not refused())


def _hasty(broker: Broker) -> pulsar.Client:
    """A client that does not try long what is refused."""
    return broker.client(operation_timeout_seconds=3)


CREATION = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}
BAD_CREATION = "Invalid configuration for autoTopicCreationOverride. the detail is "


def test_topics_come_into_being_as_the_namespace_says(broker: Broker, client: pulsar.Client, namespace: str) -> None:
    # covers TN-7, ADM-66 (autoTopicCreation)
    path, name = f"{namespace}/autoTopicCreation", f"persistent://public/{namespace.rpartition('/')[2]}"
    assert broker.rest("GET", path) == (200, "")
    assert broker.rest("POST", path, CREATION) == (204, "")
    assert broker.rest("GET", path) == (200, CREATION)
    client.create_producer(f"{name}/parted")
    assert broker.rest("GET", f"{topic_path(f'{name}/parted')}/partitions")[1]["partitions"] == 3
    plain = {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}
    assert broker.rest("POST", path, plain) == (204, "")
    assert broker.rest("GET", path) == (200, plain)
    for closed in (
        {"allowAutoTopicCreation": False, "topicType": "partitioned", "defaultNumPartitions": 2},
        {"allowAutoTopicCreation": False, "topicType": "anything"},
        {"allowAutoTopicCreation": False, "defaultNumPartitions": -2},
        {"allowAutoTopicCreation": False},
    ):
        assert broker.rest("POST", path, closed) == (204, "")
        assert broker.rest("GET", path) == (200, closed)
    with pytest.raises(pulsar.PulsarException):
        _hasty(broker).create_producer(f"{name}/never")
    assert broker.rest("DELETE", path) == (204, "")
    client.create_producer(f"{name}/ever")


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (
            {"allowAutoTopicCreation": True, "topicType": "partitioned"},
            "[defaultNumPartitions] cannot be null when the type is partitioned.",
        ),
        ({**CREATION, "defaultNumPartitions": 0}, "[defaultNumPartitions] cannot be less than 1 for partition type."),
        (
            {**CREATION, "topicType": "non-partitioned"},
            "[defaultNumPartitions] is not allowed to be set when the type is non-partition.",
        ),
        ({"allowAutoTopicCreation": True, "topicType": "nonsense"}, "Unknown topic type [nonsense]"),
        ({"allowAutoTopicCreation": True}, "Unknown topic type [null]"),
    ],
)
def test_creation_is_refused(broker: Broker, namespace: str, body: dict[str, Any], detail: str) -> None:
    # covers ADM-66 (autoTopicCreation)
    assert reason(broker.rest("POST", f"{namespace}/autoTopicCreation", body)) == (412, BAD_CREATION + detail)


@pytest.mark.parametrize("level", ["namespace", "topic"])
def test_subscriptions_come_into_being_when_they_may(
    broker: Broker, raw: RawConnection, request: pytest.FixtureRequest, topic: str, namespace: str, level: str
) -> None:
    # covers TN-9, ADM-66, ADM-67
    path = f"{request.getfixturevalue(level)}/autoSubscriptionCreation"
    name = f"persistent://public/{namespace.rpartition('/')[2]}/t"
    assert broker.rest("GET", path) == (200, "")
    assert broker.rest("POST", path, {"allowAutoSubscriptionCreation": False}) == (204, "")
    assert broker.rest("GET", path) == (200, {"allowAutoSubscriptionCreation": False})
    raw.request("LOOKUP", topic=name)
    assert raw.request("SUBSCRIBE", topic=name, subscription="never", subType="Shared", consumer_id=1).type == "ERROR"
    assert broker.rest("DELETE", path) == (204, "")
    broker.client().subscribe(name, "ever")


INACTIVE = {
    "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
    "maxInactiveDurationSeconds": 2,
    "deleteWhileInactive": True,
}


def test_policies_of_inactive_topics(broker: Broker, namespace: str, topic: str) -> None:
    # covers TN-11, ADM-66, ADM-67
    off = {**INACTIVE, "maxInactiveDurationSeconds": 60, "deleteWhileInactive": False}
    assert broker.rest("GET", f"{topic}/inactiveTopicPolicies?applied=true") == (200, off)
    for path in (f"{namespace}/inactiveTopicPolicies", f"{topic}/inactiveTopicPolicies"):
        assert broker.rest("GET", path) == (200, "")
        assert broker.rest("POST", path, {**INACTIVE, "deleteWhileInactive": False}) == (204, "")
        assert broker.rest("GET", path) == (200, {**INACTIVE, "deleteWhileInactive": False})
        assert broker.rest("DELETE", path) == (204, "")
        assert broker.rest("GET", path) == (200, "")


def test_an_inactive_topic_goes(limited_broker: Broker) -> None:
    # covers TN-11
    namespace = f"/admin/v2/namespaces/public/{fresh('ns')}"
    name = f"persistent://public/{namespace.rpartition('/')[2]}"
    assert limited_broker.rest("PUT", namespace)[0] == 204
    assert limited_broker.rest("POST", f"{namespace}/inactiveTopicPolicies", INACTIVE) == (204, "")
    client = limited_broker.client()
    client.create_producer(f"{name}/unused").close()
    client.subscribe(f"{name}/subscribed", "s").close()
    held = client.create_producer(f"{name}/held")
    eventually(lambda: limited_broker.rest("GET", f"{topic_path(f'{name}/unused')}/stats")[0] == 404, timeout_s=60)
    listed = limited_broker.rest("GET", f"{namespace}/topics")[1]
    assert sorted(topic for topic in listed if "/__" not in topic) == [f"{name}/held", f"{name}/subscribed"]
    held.close()


def test_retention_keeps_an_inactive_topic(limited_broker: Broker) -> None:
    # covers RET-6, TN-11
    topics = []
    for minutes, megabytes in ((-1, -1), (10, -1), (0, 0)):
        namespace = f"/admin/v2/namespaces/{limited_broker.namespace()}"
        retention = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
        assert limited_broker.rest("POST", f"{namespace}/retention", retention)[0] == 204
        assert limited_broker.rest("POST", f"{namespace}/inactiveTopicPolicies", INACTIVE) == (204, "")
        topic = f"persistent://public/{namespace.rpartition('/')[2]}/t"
        producer = limited_broker.client().create_producer(topic)
        producer.send(b"kept?")
        producer.close()
        topics.append(topic_path(topic))

    def statuses() -> list[int]:
        return [limited_broker.rest("GET", f"{topic}/stats")[0] for topic in topics]

    # The last one was made last: when it is gone, the others have been looked at.
    eventually(lambda: statuses()[-1] == 404, timeout_s=60)
    assert statuses() == [200, 200, 404]
