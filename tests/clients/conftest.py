"""The Go client: built once for a session, a process for each client of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import Broker
from tests.clients.go_client import GoClient, NoGo, build
from tests.clients.java_client import Java, JavaClient


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A first build in a fresh machine takes minutes: it is not in the time of the test that needs it first."""
    for item in items:
        if "go_program" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(func_only=True))


@pytest.fixture(scope="session")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program under `go/`; without Go, or its modules, the tests are skipped and say what is missing."""
    try:
        return build(tmp_path_factory.mktemp("go"))
    except NoGo as missing:
        pytest.skip(str(missing))


Clients = Callable[..., GoClient]


@pytest.fixture
def clients(go_program: Path) -> Iterator[Clients]:
    """Makes clients of a broker, by its URL; they end with the test."""
    made: list[GoClient] = []

    def client(broker: Broker, url: str | None = None, **options: Any) -> GoClient:
        made.append(GoClient(go_program, url or broker.service_url, **options))
        return made[-1]

    yield client
    for each in made:
        each.close()


@pytest.fixture
def go(clients: Clients, broker: Broker) -> GoClient:
    """A client of the broker under test."""
    return clients(broker)


@pytest.fixture(scope="session")
def java() -> Iterator[Java]:
    """The Java process of all tests."""
    running = Java()
    yield running
    running.close()


@pytest.fixture(scope="module")
def client(java: Java, broker: Broker) -> Iterator[JavaClient]:
    """A Java client of the broker under test; it takes seconds to close."""
    opened = java.client(broker.service_url)
    yield opened
    opened.client.close()
