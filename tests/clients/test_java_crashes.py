"""The official Java client copies a topic in transactions, and it and the broker are killed: each message is in the
copy once.

`CRASHES=50 pytest tests/clients/test_java_crashes.py` kills more often; `CRASH_SEED` repeats a run's choices.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Final

import pytest
from pulsar.schema import StringSchema

from tests.brokers import Broker, topic_path
from tests.clients import crashing
from tests.clients.crashing import SEED, crashes
from tests.clients.java_copy import MOST_MESSAGES, Copier
from tests.clients.stats import backlog, open_transactions, stats
from tests.eventually import eventually

CRASHES: Final = crashing.CRASHES or 4
MESSAGES_A_CRASH: Final = 25
DRAIN_S: Final = 60.0


@pytest.fixture
def topics(own_broker: Broker) -> tuple[str, str]:
    """A source with messages and a target, both with subscriptions, else they keep nothing over a restart."""
    source, target = own_broker.topic("source"), own_broker.topic("target")
    for topic, subscription in ((source, "s"), (target, "check")):
        status, answer = own_broker.rest("PUT", f"{topic_path(topic)}/subscription/{subscription}", "earliest")
        assert status == 204, answer
    return source, target


def fill(broker: Broker, source: str, count: int) -> list[str]:
    """Messages of the source."""
    values = [f"m{index}" for index in range(count)]
    producer = broker.client().create_producer(source, schema=StringSchema())
    for value in values:
        producer.send(value)
    return values


def drained(broker: Broker, copier: Copier, source: str) -> list[str]:
    """What is in the target when everything is copied and every transaction over."""
    deadline = time.monotonic() + DRAIN_S
    copier.drain(lambda: backlog(broker, source, "s") == 0 or time.monotonic() > deadline)
    assert backlog(broker, source, "s") == 0, stats(broker, source)
    eventually(lambda: open_transactions(broker) == 0)
    return copier.copied()


@pytest.mark.parametrize("type_", ["Shared", "Failover"])
def test_consume_process_produce_with_crashes(own_broker: Broker, topics: tuple[str, str], type_: str) -> None:
    # covers TX-3, TX-6, TX-7, TX-12, TX-17
    source, target = topics
    wanted = fill(own_broker, source, MESSAGES_A_CRASH * CRASHES)
    # Apache Pulsar takes ten seconds to come back.
    with_broker = own_broker.kind == "ours" or type_ == "Failover"
    history = []
    for crash in crashes(f"{SEED}/{type_}", CRASHES, with_broker=with_broker):
        copier = Copier(own_broker, source, target, type_)
        assert copier.run(crash), f"{crash} never came, after {history}"
        history.append((crash, copier.unanswered, copier.failures))
    last = Copier(own_broker, source, target, type_)
    try:
        copied = drained(own_broker, last, source)
    finally:
        last.java.close()
    assert Counter(copied) == Counter(wanted), history


def test_without_transactions_the_same_crash_copies_twice(own_broker: Broker, topics: tuple[str, str]) -> None:
    source, target = topics
    wanted = fill(own_broker, source, MOST_MESSAGES)
    Copier(own_broker, source, target, "Shared").copy_without_acks()
    last = Copier(own_broker, source, target, "Shared")
    try:
        copied = drained(own_broker, last, source)
    finally:
        last.java.close()
    assert Counter(copied) == Counter(wanted * 2)
