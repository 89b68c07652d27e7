"""What tests of several modules need here."""

from __future__ import annotations

import pytest

from tests.brokers import Broker
from tests.conformance.transactions.transacting import Transacting


@pytest.fixture
def client(broker: Broker) -> Transacting:
    """A connection that begins transactions."""
    return Transacting(broker)
