"""What tests of several modules need here."""

from __future__ import annotations

import pytest

from tests.brokers import Broker, topic_path


@pytest.fixture
def namespace(broker: Broker) -> str:
    """The path of a namespace of the test's own."""
    path = f"/admin/v2/namespaces/{broker.namespace()}"
    return path


@pytest.fixture
def topic(broker: Broker, namespace: str) -> str:
    """The path of a topic of the test's own, in that namespace."""
    path = topic_path(f"persistent://public/{namespace.rpartition('/')[2]}/t")
    assert broker.rest("PUT", path)[0] == 204
    return path
