"""Fixtures for pytest: a broker, topics, an official client and a Spark session (docs/testing.md).

pytest loads this module in every run where the package is installed. So it is shipped as the top-level module
`pytest_spark_pulsar` and imports nothing of the package until a test requests a fixture. (Importing `spark_pulsar`
chooses the Python of Spark's workers; a project that does not use it shall neither pay for that nor be changed by it.)
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    import pulsar
    from pyspark.sql import SparkSession

    from spark_pulsar.testing.process import BrokerProcess
    from spark_pulsar.testing.running import PulsarUnderTest

_GROUP = "pulsar"
_SWITCHES = ("pulsar_broker_shared", "pulsar_broker_token", "pulsar_broker_tls")
_MARKER = (
    "pulsar_topic(partitions=0, rows=None, file=None, key=None, schema_type='JSON'): the topic of the fixture "
    "pulsar_topic has that many partitions, and these messages"
)


class TopicFactory(Protocol):
    """The fixture `pulsar_topic_factory`."""

    def __call__(
        self,
        name: str = ...,
        partitions: int = ...,
        *,
        rows: Any = ...,
        file: str | Path | None = ...,
        key: str | None = ...,
        schema_type: str | None = ...,
    ) -> str:
        """Creates a topic in the test's namespace, with messages if `rows` or `file` are given, and returns its full
        name."""


class BrokerFactory(Protocol):
    """The fixture `pulsar_broker_factory`."""

    def __call__(self, conf: dict[str, object] | None = ..., *, token: bool = ..., tls: bool = ...) -> BrokerProcess:
        """Returns the session's broker with these keys of the configuration."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options; each is a key of pytest's configuration file, too."""
    group = parser.getgroup(_GROUP, "Apache Pulsar (spark-pulsar)")
    for name, text in (
        ("service-url", "Pulsar to test with, pulsar://HOST:PORT; none: a broker is started"),
        ("admin-url", "its admin API, http://HOST:PORT"),
        ("token-file", "file with a token for it"),
        ("tls-trust-certs", "file with the authorities that it is trusted by (PEM)"),
    ):
        key = "pulsar_" + name.replace("-", "_")
        group.addoption(f"--pulsar-{name}", dest=key, metavar=name.rpartition("-")[2].upper(), help=text)
        parser.addini(key, f"{text} (--pulsar-{name})", default="")
    text = "the workers of pytest-xdist share one broker"
    group.addoption("--pulsar-broker-shared", action="store_true", help=text)
    parser.addini("pulsar_broker_shared", f"{text} (--pulsar-broker-shared)", type="bool", default=False)
    parser.addini("pulsar_broker_conf", "lines key=value of the configuration of the broker", type="linelist")
    parser.addini("pulsar_broker_token", "the broker requires tokens", type="bool", default=False)
    parser.addini("pulsar_broker_tls", "the broker listens with TLS alone", type="bool", default=False)
    parser.addini("pulsar_tenant", "tenant of the namespaces of tests", default="public")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, and checks the switches of pytest's file, of whose errors pytest leaves the key out."""
    config.addinivalue_line("markers", _MARKER)
    for key in _SWITCHES:
        try:
            config.getini(key)
        except (ValueError, TypeError, pytest.UsageError) as error:
            raise pytest.UsageError(f"{key}: {error}: want true or false") from error


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Hands a worker of pytest-xdist the broker that all of them share, where they do."""
    if node.config.getoption("pulsar_broker_shared") or node.config.getini("pulsar_broker_shared"):
        from spark_pulsar.testing.running import shared_broker

        node.workerinput.update(shared_broker(node.config))


@pytest.fixture(scope="session")
def pulsar_broker_conf(request: pytest.FixtureRequest) -> dict[str, object]:
    """Keys of the broker's configuration, those of `pulsar_broker_conf` in pytest's file; override it for others."""
    from spark_pulsar.testing.running import conf_of_lines

    return conf_of_lines(request.config.getini("pulsar_broker_conf"))


@pytest.fixture(scope="session")
def pulsar_broker(
    request: pytest.FixtureRequest, pulsar_broker_conf: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PulsarUnderTest]:
    """The Pulsar of the session: a broker of its own on free ports, or the one of `--pulsar-service-url`.

    With pytest-xdist each worker has a broker of its own, unless `pulsar_broker_shared` is set.
    """
    from spark_pulsar.testing.running import pulsar_under_test

    with pulsar_under_test(request.config, pulsar_broker_conf, lambda: tmp_path_factory.mktemp("pulsar")) as running:
        yield running


@pytest.fixture(scope="session")
def pulsar_broker_factory(request: pytest.FixtureRequest) -> Iterator[BrokerFactory]:
    """A function that returns brokers of other configurations: `make({"maxMessageSize": 1024}, token=True)`. Tests that
    request the same one share it; all end with the session."""
    from contextlib import ExitStack

    from spark_pulsar.testing.running import Brokers

    with ExitStack() as stack:
        yield Brokers(request.config, stack).get


@pytest.fixture
def pulsar_namespace(request: pytest.FixtureRequest, pulsar_broker: PulsarUnderTest) -> Iterator[str]:
    """A namespace of the test's own, deleted at its end with all of its topics."""
    from spark_pulsar.testing.namespaces import fresh_namespace

    with fresh_namespace(pulsar_broker, request.config.getini("pulsar_tenant")) as namespace:
        yield namespace


@pytest.fixture
def pulsar_topic_factory(
    request: pytest.FixtureRequest, pulsar_broker: PulsarUnderTest, pulsar_namespace: str
) -> TopicFactory:
    """A function that creates topics in the test's namespace: `make("orders", partitions=3)` returns the full name.
    `make("orders", rows=[{"customer": "ada"}], key="customer")` and `make("orders", file="orders.jsonl")` send
    messages, too; a file is beside the test's."""
    from spark_pulsar.testing.namespaces import Topics

    return Topics(pulsar_broker, pulsar_namespace, request.node.name, request.path.parent).create


@pytest.fixture
def pulsar_topic(request: pytest.FixtureRequest, pulsar_topic_factory: TopicFactory) -> str:
    """The full name of a new topic, which has the test's name, and what the marker `pulsar_topic` gives it: partitions,
    messages."""
    from spark_pulsar.testing.namespaces import arguments_of

    return pulsar_topic_factory(**arguments_of(request.node.get_closest_marker("pulsar_topic")))


@pytest.fixture
def pulsar_client(request: pytest.FixtureRequest, pulsar_broker: PulsarUnderTest) -> Iterator[pulsar.Client]:
    """An official client, closed at the end of the test."""
    from spark_pulsar.testing.running import client_of_test

    if "pulsar_namespace" in request.fixturenames:  # it is deleted after the client is closed
        request.getfixturevalue("pulsar_namespace")

    with client_of_test(pulsar_broker) as client:
        yield client


@pytest.fixture(scope="session")
def spark_pulsar_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The Spark session that is active, else one for small tests on two threads, stopped at the end of the session."""
    from spark_pulsar.testing.sessions import spark_session

    with spark_session(lambda: tmp_path_factory.mktemp("spark")) as session:
        yield session
