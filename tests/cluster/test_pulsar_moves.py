"""Bundles move and brokers die under running queries: no row is lost, none is read twice."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from itertools import count

import pytest
from pyspark.sql.streaming import StreamingQuery

from tests.cluster.pulsar_cluster import PulsarCluster
from tests.cluster.traffic import Seen, Traffic, on_topic
from tests.eventually import eventually
from tests.spark.flows import Flows

PATIENCE_MS = 120_000
PARTITIONS = 4
BACKLOG = range(1_000_000, 1_020_000)
"""Numbers that are on the topic before anybody reads it."""
BATCH = 1_500
"""Rows of a micro-batch of the copy."""
_numbers = count()


def spread_topics(cluster: PulsarCluster) -> tuple[str, str]:
    """Two topics with partitions on both brokers, in a namespace of their own that keeps what is written."""
    namespace = cluster.namespace(f"moves-{os.getpid()}-{next(_numbers)}", 4)
    topics = [f"persistent://{namespace}/{name}" for name in ("source", "target")]
    cluster.spread([partition for topic in topics for partition in cluster.create(topic, PARTITIONS)])
    return topics[0], topics[1]


def reading(flows: Flows, source: str, seen: Seen) -> StreamingQuery:
    frame = flows.stream(source, subscriptionName="seen", operationTimeoutMs=PATIENCE_MS)
    return flows.start(frame.writeStream.foreachBatch(seen).option("checkpointLocation", flows.checkpoint()))


def copying(flows: Flows, source: str, target: str) -> StreamingQuery:
    frame = flows.stream(source, operationTimeoutMs=PATIENCE_MS, maxMessagesPerTrigger=BATCH).select("value", "__key")
    writer = frame.writeStream.format("pulsar").option("service.url", flows.broker.service_url).option("topic", target)
    writer = writer.option("sendTimeoutMs", PATIENCE_MS).option("operationTimeoutMs", PATIENCE_MS)
    return flows.start(writer.option("checkpointLocation", flows.checkpoint()))


def batches(query: StreamingQuery) -> int:
    """Counts the micro-batches that are done."""
    return -1 if query.lastProgress is None else int(query.lastProgress["batchId"])


def goes_on(queries: list[StreamingQuery]) -> None:
    """Waits until each query has done two more micro-batches."""
    for query in queries:
        before = batches(query)
        eventually(lambda query=query, before=before: not query.isActive or batches(query) >= before + 2, 150)
        assert query.exception() is None
        assert query.isActive


def copied_through(
    flows: Flows, cluster: PulsarCluster, disturb: list[Callable[[str, str], None]], cuts: int = 1
) -> None:
    """Reads and copies a topic while each of `disturb` is done once, then compares what is on the topics with it.

    `cuts`: how often one of them cuts off a producer.
    """
    source, target = spread_topics(cluster)
    flows.send(source, [str(number) for number in BACKLOG], batching_enabled=True, batching_max_messages=100)
    seen = Seen()
    with Traffic(flows.official(), source) as traffic:
        queries = [reading(flows, source, seen), copying(flows, source, target)]
        goes_on(queries)
        for each in disturb:
            each(source, target)
            goes_on(queries)
    for query in queries:
        query.processAllAvailable()
        assert query.exception() is None
        query.stop()
    there = on_topic(flows, source)
    assert traffic.stored | set(BACKLOG) <= {row[-1] for row in there}
    assert seen.all == there
    assert set(there.values()) == {1}
    read, written = (Counter(row[-1] for row in rows.elements()) for rows in (there, on_topic(flows, target)))
    assert not read - written, "rows are missing in the target"
    again = written - read
    # Each time at most what was under way, which is part of a micro-batch.
    assert again.total() <= len(disturb) * cuts * BATCH, f"{again.total()} rows were written again"


@pytest.mark.parametrize("by", [pytest.param("unloads", marks=pytest.mark.long), "moves"])
def test_bundles_move_under_a_source_and_a_sink(cluster: PulsarCluster, flows: Flows, by: str) -> None:
    def of_each(topic: str) -> None:
        for index in range(PARTITIONS):
            partition = f"{topic}-partition-{index}"
            if by == "unloads":
                cluster.unload(partition)
            else:
                cluster.move(partition, 1 - cluster.owner(partition))

    copied_through(
        flows, cluster, [lambda source, _: of_each(source), lambda _, target: of_each(target)] * 2, PARTITIONS
    )


def test_brokers_die_under_a_source_and_a_sink(cluster: PulsarCluster, flows: Flows) -> None:
    def dies(number: int) -> Callable[[str, str], None]:
        def kill_and_restart(_source: str, _target: str) -> None:
            cluster.kill(number)
            cluster.restart(number)

        return kill_and_restart

    def dies_for_good(_source: str, _target: str) -> None:
        cluster.kill(0)
        cluster.wait_until_given_up(0)

    try:
        copied_through(flows, cluster, [dies(0), dies(1), dies_for_good])
    finally:
        if not cluster.brokers[0].process.running:
            cluster.restart(0)
