"""Errors that leave the methods that Spark calls: without frames of ours where a user can mend them, with the cure."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.connector.entry_points import entry_point, entry_points
from spark_pulsar.connector.errors import OptionError
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

HIDE, KEEP = "SPARK_HIDE_TRACEBACK", "SPARK_TRACEBACK_WITH_LOCALS"


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process looks like one that Spark started."""
    for name in (HIDE, KEEP):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="pyspark.daemon"))


@entry_points
class Entered:
    """Methods that fail."""

    def read(self) -> Iterator[int]:
        """A generator that fails under way."""
        yield 1
        raise ConsumerBusy("Topic reached max consumers limit")

    def plan(self) -> None:
        """A method that fails for its user."""
        raise OptionError("option topic = '': empty")

    def bug(self) -> None:
        """A method that fails for nobody's mistake but ours."""
        raise KeyError(21)

    def __getstate__(self) -> dict[str, object]:
        raise OptionError("not with this topic")


@pytest.mark.usefixtures("worker")
def test_the_reason_stands_alone_and_a_bug_keeps_its_frames() -> None:
    # covers READ-42
    with pytest.raises(KeyError):
        Entered().bug()
    assert HIDE not in os.environ
    with pytest.raises(OptionError) as refused:
        Entered().plan()
    assert os.environ[HIDE] == "1"
    assert "plan" not in {frame.name for frame in traceback.extract_tb(refused.tb)}
    read = Entered().read()
    assert next(read) == 1
    with pytest.raises(ConsumerBusy, match="Topic reached max consumers limit: the policy maxConsumersPerTopic"):
        next(read)


@pytest.mark.usefixtures("worker")
def test_the_reason_survives_pickling() -> None:
    # covers READ-42
    with pytest.raises(pickle.PickleError, match="not with this topic") as refused:
        Entered().__getstate__()
    assert isinstance(refused.value, OptionError)
    assert traceback.format_exception_only(refused.value) == [
        "spark_pulsar.connector.errors.OptionError: not with this topic\n"
    ]


@pytest.mark.usefixtures("worker")
def test_a_setting_of_spark_keeps_the_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEEP, "1")
    with pytest.raises(OptionError):
        Entered().plan()
    assert HIDE not in os.environ


def test_other_programs_keep_their_environment() -> None:
    with pytest.raises(OptionError):
        entry_point(Entered.plan)(Entered())
    assert HIDE not in os.environ


# ---- what a user can do about a refusal: texts as both brokers were seen to send them


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
