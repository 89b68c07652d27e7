"""The secured broker of all tests here, and short ways to say who comes to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.security.secured_pulsar import SecuredPulsar, secured_pulsar
from tests.spark.conftest import spark  # noqa: F401 - a fixture


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The start of a broker and of Spark is not in the time of the test that needs them first."""
    for item in items:
        item.add_marker(pytest.mark.timeout(func_only=True))


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPulsar]:
    """One Apache Pulsar that lets nobody in without credentials."""
    with secured_pulsar(tmp_path_factory.mktemp("secured-pulsar")) as running:
        yield running


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """The issuers of the tests are reached without a proxy."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
