"""Two brokers: the one under test, and one of ours beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from tests.brokers import Broker
from tests.conftest import started


class Ways(NamedTuple):
    """A source and a target."""

    source: Broker
    target: Broker


@pytest.fixture(scope="session")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of ours beside the one under test."""
    with started("ours", tmp_path_factory.mktemp("beside")) as other:
        yield other
        other.close_since(0)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """To the broker under test and from it; with two of ours one direction is enough."""
    if "ways" in metafunc.fixturenames:
        is_ours = metafunc.config.getoption("--broker") == "ours"
        metafunc.parametrize("ways", ["to"] if is_ours else ["to", "from"], indirect=True)


@pytest.fixture
def ways(request: pytest.FixtureRequest, broker: Broker, beside: Broker) -> Ways:
    """The direction of a test."""
    return Ways(beside, broker) if request.param == "to" else Ways(broker, beside)


@pytest.fixture
def opened() -> Iterator[Callable[[str], PulsarClient]]:
    """Makes clients of this package, closed when the test ends."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(PulsarClient(ClientConfig(url, operation_timeout_ms=20_000)))
