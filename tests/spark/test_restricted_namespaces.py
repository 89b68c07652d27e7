"""Namespaces that forbid: a role that may do little, and policies that restrict subscriptions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.access.roles import ADMIN, CONFIGURATION, TOKENS, Rest, token
from tests.brokers import Broker
from tests.conftest import started
from tests.spark.flows import run_to_end

_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
_numbers = itertools.count()
ROLE = "app"
TOKENS.setdefault(ROLE, token(ROLE))


class Team:
    """A broker with authorization, its tenant `team`, and Spark as the role `app`."""

    def __init__(self, broker: Broker, spark: SparkSession, directory: Path) -> None:
        self.rest = Rest(broker.admin_url)
        self.rest.must("PUT", "admin/v2/tenants/team", {"adminRoles": ["lead"], "allowedClusters": ["standalone"]})
        self._broker, self._spark, self._directory = broker, spark, directory

    def namespace(self, *actions: str, **policies: object) -> str:
        """A new namespace in which the role has actions, with policies by their REST paths."""
        name = f"team/n{next(_numbers)}"
        self.rest.must("PUT", f"admin/v2/namespaces/{name}", {})
        if actions:
            self.rest.must("POST", f"admin/v2/namespaces/{name}/permissions/{ROLE}", list(actions))
        for path, value in policies.items():
            self.rest.must("POST", f"admin/v2/namespaces/{name}/{path}", value)
        return name

    def options(self, role: str = ROLE, /, **more: object) -> dict[str, str]:
        """Options of a role."""
        service = {"service.url": self._broker.service_url, "pulsar.client.authPluginClassName": _PLUGIN}
        secret = {"pulsar.client.authParams": f"token:{TOKENS[role]}"}
        return service | secret | {name: str(value) for name, value in more.items()}

    def write(self, topic: str, count: int, role: str = ADMIN, **more: object) -> None:
        """Rows `m0`, `m1` and so on."""
        rows = self._spark.range(0, count, numPartitions=1).selectExpr("CONCAT('m', id) AS value")
        rows.write.format("pulsar").options(**self.options(role, topic=topic, **more)).mode("append").save()

    def read(self, **more: object) -> list[str]:
        """Values that the role reads."""
        frame = self._spark.read.format("pulsar").options(**self.options(**more)).schema("value string").load()
        return sorted(row.value for row in frame.collect())

    def stream(self, **more: object) -> DataFrame:
        """A stream of the role, from the earliest message."""
        given = self.options(startingOffsets="earliest", **more)
        return self._spark.readStream.format("pulsar").options(**given).schema("value string").load()

    def copy(self, frame: DataFrame, **more: object) -> None:
        """Writes what a stream has now, as the role."""
        writer = frame.writeStream.format("pulsar").options(**self.options(**more))
        run_to_end(writer, str(self._directory / str(next(_numbers))))


@pytest.fixture(scope="module")
def secured(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with authorization."""
    own = {
        "brokerClientAuthenticationPlugin": _PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{TOKENS[ADMIN]}",
    }
    headers = {"Authorization": f"Bearer {TOKENS[ADMIN]}"}
    with started(broker_kind, tmp_path_factory.mktemp("secured"), CONFIGURATION | own, headers) as broker:
        yield broker


@pytest.fixture
def team(secured: Broker, spark: SparkSession, tmp_path: Path) -> Iterator[Team]:
    made = Team(secured, spark, tmp_path)
    yield made
    made.rest.close()


def test_subscriptions_named_after_their_role(team: Team) -> None:
    # covers READ-39, READ-40, READ-42
    namespace = team.namespace("consume", "produce", subscriptionAuthMode="Prefix")
    if "system" not in str(team.rest.call(ADMIN, "GET", "admin/v2/namespaces/pulsar")):
        team.rest.must("PUT", "admin/v2/tenants/pulsar", {"adminRoles": [], "allowedClusters": ["standalone"]})
        team.rest.must("PUT", "admin/v2/namespaces/pulsar/system", {})
    team.rest.must("POST", f"admin/v2/namespaces/pulsar/system/permissions/{ROLE}", ["consume", "produce"])
    team.rest.must("POST", f"admin/v2/namespaces/{namespace}/deduplication", True)
    topic, copy = f"persistent://{namespace}/t", f"persistent://{namespace}/copy"
    team.write(topic, 20)
    with pytest.raises(PySparkException) as refused:
        team.read(topic=topic)
    first, text = str(refused.value).splitlines()[0], str(refused.value)
    assert "spark_pulsar.model.errors.AuthorizationError: " in first
    assert f"the option subscriptionPrefix to a text that begins with {ROLE}" in first
    assert "Traceback" not in text
    assert "spark_pulsar/" not in text

    prefix = {"subscriptionPrefix": f"{ROLE}-spark"}
    everything = sorted(f"m{number}" for number in range(20))
    assert team.read(topic=topic, minPartitions=2, **prefix) == everything
    frame = team.stream(topic=topic, subscriptionName=f"{ROLE}-job", **prefix)
    team.copy(frame, topic=copy, deliveryGuarantee="transactional", **prefix)
    assert team.read(topicsPattern=f"{namespace}/cop.", **prefix) == everything
    status, answer = team.rest.call(ADMIN, "GET", f"admin/v2/persistent/{namespace}/t/subscriptions")
    assert (status, ROLE in answer) == (200, True)


def test_what_is_forbidden_is_named_at_once(team: Team) -> None:
    # covers READ-40
    topic = f"persistent://{team.namespace()}/t"
    team.write(topic, 1)
    with pytest.raises(PySparkException, match="reading needs the permission consume"):
        team.read(topic=topic)
    with pytest.raises(PySparkException, match="lists the topics of a namespace, which needs the permission consume"):
        team.read(topicsPattern=f"{topic}.*")
    encrypted = f"persistent://{team.namespace('produce', encryptionRequired=True)}/t"
    with pytest.raises(PySparkException, match=r"Encryption is required .* give the options encryptionKeys"):
        team.write(encrypted, 1, ROLE)
    closed = team.namespace("consume", autoSubscriptionCreation={"allowAutoSubscriptionCreation": False})
    team.write(f"persistent://{closed}/t", 1)
    assert team.read(topic=f"persistent://{closed}/t") == ["m0"]
    with pytest.raises(PySparkException, match=f"'job' does not exist.*{closed}/t: .*topics create-subscription -s"):
        team.copy(team.stream(topic=f"persistent://{closed}/t", subscriptionName="job"), topic=f"{encrypted}2")


def test_a_namespace_of_shared_subscriptions_alone(team: Team) -> None:
    """The topics are loaded before: with a transaction coordinator, an Apache Pulsar that loads a topic in such a
    namespace refuses its own readers there, and answers nobody."""
    # covers READ-41
    namespace = team.namespace("consume", "produce")
    topic, copy = f"persistent://{namespace}/t", f"persistent://{namespace}/copy"
    team.write(topic, 30)
    team.write(copy, 1)
    assert team.read(topic=copy) == ["m0"]
    assert len(team.read(topic=topic)) == 30
    team.rest.must("POST", f"admin/v2/namespaces/{namespace}/subscriptionTypesEnabled", ["Shared"])
    assert team.read(topic=topic) == sorted(f"m{number}" for number in range(30))
    team.copy(team.stream(topic=topic, maxMessagesPerTrigger=20), topic=copy)
    assert len(team.read(topic=copy)) == 31
    with pytest.raises(PySparkException, match=r"subscriptionName = 'job' is not allowed.*forbids Exclusive"):
        team.copy(team.stream(topic=topic, subscriptionName="job"), topic=copy)
