"""Rates in statistics and metrics: over the interval that the configuration sets, two seconds here."""

from __future__ import annotations

import itertools
import urllib.request
from typing import Any

import pulsar
import pytest

from tests import changes
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import receive, send_all
from tests.conformance.test_chunks import Feeder
from tests.eventually import eventually

BATCH = 10


def _metrics(broker: Broker, topic: str) -> dict[str, float]:
    with urllib.request.urlopen(f"{broker.admin_url}/metrics", timeout=60) as answer:
        found = [line for line in answer.read().decode().splitlines() if f'topic="{topic}"' in line]
    return {line.partition("{")[0]: float(line.rpartition("} ")[2].split()[0]) for line in found}


def test_rates_of_a_topic_and_of_what_is_connected_to_it(configured_broker: Broker) -> None:
    # covers ST-7, ADM-9
    topic = configured_broker.topic()
    client = configured_broker.client()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, batching_enabled=False)
    assert configured_broker.stats(topic)["msgRateIn"] == 0

    def busy() -> Any:
        send_all(producer, [bytes(1000)] * BATCH)
        for message in receive(consumer, BATCH):
            consumer.acknowledge(message)
        stats = configured_broker.stats(topic)
        [one] = stats["subscriptions"]["s"]["consumers"]
        rates = [stats["msgRateIn"], stats["publishers"][0]["msgRateIn"], one["msgRateOut"]]
        if not configured_broker.has(changes.NO_ACK_RATE):
            rates.append(one["messageAckRate"])
        return stats if all(rate > 0 for rate in rates) else None

    stats = eventually(busy, timeout_s=60)
    assert 1000 < stats["averageMsgSize"] < 1200
    assert stats["msgThroughputIn"] / stats["msgRateIn"] == pytest.approx(stats["averageMsgSize"])
    subscription = stats["subscriptions"]["s"]
    assert stats["msgRateOut"] == pytest.approx(subscription["msgRateOut"])
    assert subscription["msgThroughputOut"] / subscription["msgRateOut"] == pytest.approx(
        stats["averageMsgSize"], rel=0.01
    )

    def measured() -> bool:
        send_all(producer, [bytes(1000)] * BATCH)
        receive(consumer, BATCH)
        found = _metrics(configured_broker, topic)
        names = ("rate_in", "throughput_in", "rate_out", "throughput_out", "average_msg_size")
        named = [f"pulsar_{name}" for name in names] + ["pulsar_subscription_msg_rate_out"]
        return all(found.get(name, 0) > 0 for name in named)

    eventually(measured, timeout_s=60)

    def idle() -> bool:
        stats = configured_broker.stats(topic)
        names = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut", "averageMsgSize")
        return all(stats[name] == 0 for name in names)

    eventually(idle, timeout_s=60)
    assert configured_broker.stats(topic)["msgInCounter"] >= BATCH


def test_chunks_have_a_rate_of_their_own(configured_broker: Broker) -> None:
    # covers ST-7 (chunkedMessageRate)
    topic = configured_broker.topic()
    configured_broker.client().subscribe(topic, "s", pulsar.ConsumerType.Shared)
    feeder = Feeder(configured_broker, topic)
    names = itertools.count()

    def shown() -> bool:
        name = f"x{next(names)}"
        feeder.chunk(name, 0)  # the last one is not sent: it would be found to be repeated
        feeder.chunk(name, 1)
        stats = configured_broker.stats(topic)
        subscription = stats["subscriptions"]["s"]
        counted = (stats["publishers"][0], subscription, subscription["consumers"][0])
        return all(each["chunkedMessageRate"] > 0 for each in counted)

    eventually(shown, timeout_s=60)


def test_rates_of_partitions_are_summed(configured_broker: Broker) -> None:
    # covers ST-5 (rates)
    topic = configured_broker.topic(partitions=2)
    client = configured_broker.client()
    mode = pulsar.PartitionsRoutingMode.RoundRobinDistribution
    producer = client.create_producer(topic, message_routing_mode=mode, batching_enabled=False)

    def summed() -> bool:
        send_all(producer, [bytes(100)] * BATCH)
        stats = configured_broker.rest("GET", f"{topic_path(topic)}/partitioned-stats")[1]
        rates = [each["msgRateIn"] for each in stats["partitions"].values()]
        assert stats["msgRateIn"] == pytest.approx(sum(rates))
        return all(rate > 0 for rate in rates)

    eventually(summed, timeout_s=60)


def test_times_of_a_subscription(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers ST-9
    consumer = client.subscribe(topic, "s")
    names = ("lastConsumedTimestamp", "lastAckedTimestamp", "lastMarkDeleteAdvancedTimestamp")
    before = broker.stats(topic)["subscriptions"]["s"]
    assert [before[name] for name in names] == [0, 0, 0]
    eventually(lambda: broker.stats(topic)["subscriptions"]["s"]["lastConsumedFlowTimestamp"] > 0)
    send_all(client.create_producer(topic), ["x"])
    consumer.acknowledge(receive(consumer, 1)[0])

    def shown() -> bool:
        found = broker.stats(topic)["subscriptions"]["s"]
        return all(found[name] > 0 for name in names)

    eventually(shown)
