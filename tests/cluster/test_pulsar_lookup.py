"""Topics are found on the broker that owns them, through whichever broker the service URL names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.apache_pulsar.start import free_ports
from tests.brokers import Broker
from tests.cluster.pulsar_cluster import PulsarCluster
from tests.spark.flows import Flows, texts, values


@pytest.fixture(scope="module")
def namespace(cluster: PulsarCluster) -> str:
    """A namespace whose topics are spread over bundles."""
    return cluster.namespace(f"lookup-{os.getpid()}", 8)


def through(service_url: str, flows: Flows, directory: Path) -> Flows:
    """The session of `flows` with another service URL."""
    return Flows(flows.spark, Broker("apache-pulsar", service_url, flows.broker.admin_url), directory)


@pytest.mark.parametrize("owner", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_topic_of_the_other_broker(
    cluster: PulsarCluster, namespace: str, spark: SparkSession, tmp_path: Path, owner: int
) -> None:
    named = cluster.broker(1 - owner)
    topic = f"persistent://{namespace}/of-{owner}"
    cluster.create(topic)
    cluster.move(topic, owner)
    with Flows(spark, named, tmp_path) as flows:
        flows.send(topic, texts(10))
        flows.write(flows.rows("value string", [(text,) for text in texts(10, 10)]).coalesce(1), topic)
        assert values(flows.batch(topic).collect()) == texts(20)
        [batch] = flows.drain(flows.stream(topic, subscriptionName="progress"), flows.checkpoint())
        assert values(batch) == texts(20)
        assert cluster.owner(topic) == owner
        status, stats = cluster.rest("GET", f"/admin/v2/{topic.replace('://', '/')}/stats")
        assert status == 200
        assert "progress" in stats["subscriptions"]
    named.close_since(0)


@pytest.mark.parametrize(
    "which",
    [
        pytest.param("one broker", marks=pytest.mark.long),
        pytest.param("both", marks=pytest.mark.long),
        "a dead one first",
    ],
)
def test_partitions_on_both_brokers(
    cluster: PulsarCluster, namespace: str, flows: Flows, tmp_path: Path, which: str
) -> None:
    second = cluster.brokers[1].service_url
    dead = f"pulsar://127.0.0.1:{free_ports(1)[0]}"
    url = {
        "one broker": second,
        "both": cluster.service_url,
        "a dead one first": f"{dead},{second.removeprefix('pulsar://')}",
    }[which]
    topic = f"persistent://{namespace}/spread-{which.replace(' ', '-')}"
    partitions = cluster.create(topic, 6)
    cluster.spread(partitions)
    assert {cluster.owner(partition) for partition in partitions} == {0, 1}
    here = through(url, flows, tmp_path / "here")
    with here:
        rows = [(text, text) for text in texts(300)]
        here.write(here.rows("value string, __key string", rows).repartition(2), topic)
        flows.send(topic, texts(300, 300))
        assert sorted(values(here.batch(topic).collect())) == sorted(texts(600))
        stream = here.stream(topicsPattern=f"{namespace}/spread-{which.replace(' ', '-')}", maxMessagesPerTrigger=250)
        batches = here.drain(stream, here.checkpoint())
        assert len(batches) >= 3
        assert sorted(value for batch in batches for value in values(batch)) == sorted(texts(600))
    here.broker.close_since(0)
