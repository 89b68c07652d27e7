"""What a user can do about a refusal: texts as both brokers were seen to send them."""

from __future__ import annotations

import pytest

from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.connector.refusals import with_cure
from spark_pulsar.model.errors import (
    AuthorizationError,
    ConsumerBusy,
    IncompatibleSchema,
    NotAllowed,
    ProducerBusy,
    PulsarError,
    SubscriptionNotFound,
    TopicNotFound,
    TopicTerminated,
    UnknownError,
    error_from_wire,
)

_PREFIXED = (
    "org.apache.pulsar.broker.PulsarServerException: Failed to create consumer - The subscription name needs to be "
    "prefixed by the authentication role, like app-xxxx for topic: persistent://team/n/t (broker 127.0.0.1:1)"
)
_SYSTEM = "persistent://pulsar/system/transaction_coordinator_assign-partition-0: Client is not authorized to Lookup"
_SCHEMA = "org.apache.pulsar.broker.service.schema.exceptions.IncompatibleSchemaException: "
_UPDATE = f"{_SCHEMA}Schema not found and schema auto updating is disabled."


@pytest.mark.parametrize(
    ("refusal", "cure"),
    [
        (AuthorizationError(_PREFIXED), "the option subscriptionPrefix to a text that begins with app, such as app-"),
        (NotAllowed("Topic[{t}] doesn't support Exclusive sub type!"), "set-subscription-types-enabled"),
        (AuthorizationError("Client is not authorized to GetTopicsOfNamespace"), "the option topics"),
        (AuthorizationError(_SYSTEM), "grant-permission pulsar/system"),
        (AuthorizationError("Client is not authorized to Produce"), "--actions produce"),
        (AuthorizationError("Client is not authorized to subscribe"), "--actions consume"),
        (AuthorizationError("Client is not authorized to Get Partition Metadata"), "consume,produce"),
        (NotAllowed("Exceed the maximum number of subscriptions of the topic: t"), "maxSubscriptionsPerTopic"),
        (ConsumerBusy("Topic reached max consumers limit"), "maxConsumersPerTopic"),
        (ProducerBusy("Topic 't' reached max producers limit"), "maxProducersPerTopic"),
        (SubscriptionNotFound("Subscription does not exist"), "topics create-subscription -s NAME"),
        (NotAllowed("Exceed maximum number of topics in namespace."), "maxTopicsPerNamespace"),
        (IncompatibleSchema(f"{_UPDATE} caused by {_UPDATE}"), "isAllowAutoUpdateSchema"),
        (IncompatibleSchema("Producers cannot … when SchemaValidationEnforced is enabled"), "the option schemaType"),
        (IncompatibleSchema("check with strategy ALWAYS_INCOMPATIBLE: …"), "schemaCompatibilityStrategy"),
        (UnknownError("Namespace missing local cluster name in clusters list: …"), "replication_clusters"),
        (NotAllowed("Encryption is required in persistent://team/n/t"), "encryptionKeys"),
        (TopicTerminated("Topic was already terminated"), "write to another one"),
        (TopicNotFound("Namespace not found"), "namespaces create"),
        (TopicNotFound("topic persistent://a/b/t not found: TopicNotFound"), "autoTopicCreation"),
    ],
)
def test_a_refusal_names_its_policy_and_the_cure(refusal: PulsarError, cure: str) -> None:
    # covers READ-40
    cured = with_cure(refusal)
    assert type(cured) is type(refusal)
    assert cured.__cause__ is refusal
    assert cure in str(cured)
    assert "org.apache.pulsar" not in str(cured)
    assert str(cured).count("auto updating is disabled") <= 1
    assert with_cure(cured) is cured


def test_other_errors_stay_as_they_are() -> None:
    for error in (ValueError("Namespace not found"), OperationTimeout("asking", "b", 5, "x"), UnknownError("what")):
        assert with_cure(error) is error


@pytest.mark.parametrize("code", [0, 1, 6])
def test_a_policy_under_a_code_of_passing_trouble_ends_at_once(code: int) -> None:
    # covers READ-40
    assert not error_from_wire(code, "Namespace missing local cluster name in clusters list: ns=a/b").retriable
