"""What the statistics of a topic, and of the coordinators of transactions, say."""

from __future__ import annotations

from typing import Any

from tests.brokers import Broker, topic_path


def stats(broker: Broker, topic: str, partitions: int = 0) -> dict[str, Any]:
    """Of the topic, or of all its partitions together."""
    status, answer = broker.rest("GET", f"{topic_path(topic)}/{'partitioned-' if partitions else ''}stats")
    assert status == 200, answer
    return dict(answer)


def backlog(broker: Broker, topic: str, subscription: str, partitions: int = 0) -> int:
    """Messages that a subscription has before it."""
    return int(stats(broker, topic, partitions)["subscriptions"][subscription]["msgBacklog"])


def open_transactions(broker: Broker) -> int:
    """Transactions that are open at the broker."""
    status, answer = broker.rest("GET", "/admin/v3/transactions/coordinatorStats")
    assert status == 200, answer
    return sum(each["ongoingTxnSize"] for each in answer.values())
