"""What tests of several modules need here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.outliving import Lives, lives_of_module
from tests.conftest import SpecialBrokers


@pytest.fixture(scope="module")
def after_a_kill(special_brokers: SpecialBrokers, request: pytest.FixtureRequest) -> Iterator[Lives]:
    """The tests that outlive `kill -9`."""
    yield from lives_of_module(special_brokers, request, "kill")


@pytest.fixture(scope="module")
def after_a_stop(special_brokers: SpecialBrokers, request: pytest.FixtureRequest) -> Iterator[Lives]:
    """The tests that outlive a stop in order."""
    yield from lives_of_module(special_brokers, request, "stop")
