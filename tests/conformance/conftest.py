"""What tests of several modules need here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.outliving import Lives, lives_with
from tests.conftest import SpecialBrokers


def _reach(*, fixture_name: str, config: pytest.Config) -> str:
    return "module" if config.getoption("--broker") == "ours" else "session"


@pytest.fixture(scope=_reach)
def after_a_kill(special_brokers: SpecialBrokers, request: pytest.FixtureRequest) -> Iterator[Lives]:
    """The tests that outlive `kill -9`."""
    yield from lives_with("kill", special_brokers, request)


@pytest.fixture(scope=_reach)
def after_a_stop(special_brokers: SpecialBrokers, request: pytest.FixtureRequest) -> Iterator[Lives]:
    """The tests that outlive a stop in order."""
    yield from lives_with("stop", special_brokers, request)
