"""`/metrics`: readable by Prometheus, rates, evictions, damage, a disk that is short, hangs or has room."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spark_pulsar.broker.turn.events import DiskFull, EntriesLost
from tests.unit.admin.test_app import Gate, call
from tests.unit.broker.world import TOPIC, World, entry

PATH = "/admin/v2/persistent/public/default/t"


def metrics_of(world: World) -> dict[tuple[str, ...], float]:
    """Value by name and the values of the labels below the cluster."""
    status, headers, text = call(world, "GET", "/metrics")
    assert (status, headers["content-type"].partition(";")[0]) == (200, "text/plain")
    found: dict[tuple[str, ...], float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = [sample.labels[name] for name in sample.labels if name not in ("cluster", "namespace")]
            key = (sample.name, *labels)
            assert key not in found, key
            found[key] = sample.value
    return found


def stats_of(world: World) -> Any:
    return call(world, "GET", f"{PATH}/stats")[2]


def test_each_metric_is_headed_once_and_every_line_is_read() -> None:
    # covers ADM-9
    world = World(cluster_name='a "quoted" \\ name')
    client = world.connect()
    for topic in (TOPIC, f"{TOPIC}2"):
        client.open_consumer(topic=topic, consumer_id=len(topic))
    text = call(world, "GET", "/metrics")[2]
    heads = [line for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(heads) == len(set(heads)) > 50
    found = metrics_of(world)
    assert found["pulsar_broker_subscriptions_count",] == 2
    assert found["pulsar_subscription_consumers_count", f"{TOPIC}2", "s"] == 1


def test_rates() -> None:
    # covers ADM-9, ST-7
    world = World(stats_interval_ms=10_000)
    client = world.connect()
    client.open_producer()
    client.open_consumer(permits=100)
    client.publish(1, *(entry("x") for _ in range(50)))
    world.advance(10_000)
    found, stats = metrics_of(world), stats_of(world)
    assert found["pulsar_rate_in", TOPIC] == found["pulsar_rate_out", TOPIC] == 5.0
    assert found["pulsar_broker_rate_in",] == found["pulsar_subscription_msg_rate_out", TOPIC, "s"] == 5.0
    assert found["pulsar_throughput_in", TOPIC] == stats["msgThroughputIn"] > 0
    assert found["pulsar_average_msg_size", TOPIC] == stats["averageMsgSize"] > 0
    assert found["pulsar_out_messages_total", TOPIC, "s"] == 50
    for name in ("pulsar_storage_write_rate", "pulsar_storage_read_rate"):
        assert found[name, TOPIC] == found[name.replace("_storage", "_broker_storage"),] == 5.0
    # What was stored before a restart is not stored again by it.
    world = world.restart()
    world.connect().open_producer()
    world.advance(10_000)
    assert metrics_of(world)["pulsar_storage_write_rate", TOPIC] == 0.0


def test_a_damaged_topic_is_seen_in_stats_and_metrics() -> None:
    world = World()
    client = world.connect()
    client.open_producer()
    client.publish(1, entry("a"), entry("b"))
    assert "readOnlyReason" not in stats_of(world)
    assert metrics_of(world)["spark_pulsar_topic_read_only", TOPIC] == 0
    world.happen([EntriesLost([(1, 1, 2)], "ledgers/1.ledger:0", "a block fails its checksum")])
    reason = stats_of(world)["readOnlyReason"]
    assert "1:1" in reason
    assert "ledgers/1.ledger:0" in reason
    found = metrics_of(world)
    assert (found["spark_pulsar_topic_read_only", TOPIC], found["spark_pulsar_read_only_topics",]) == (1, 1)


def test_a_disk_that_is_short_is_seen_in_health_and_metrics() -> None:
    # covers DUR-10
    world = World()
    assert metrics_of(world)["spark_pulsar_disk_full",] == 0
    world.happen([DiskFull("No space left on device")])
    assert metrics_of(world)["spark_pulsar_disk_full",] == 1
    status, _, answer = call(world, "GET", "/admin/v2/brokers/health")
    assert (status, "No space left" in answer["reason"]) == (503, True)
    assert call(world, "GET", "/admin/v2/brokers/ready")[0] == 200
    world.happen([DiskFull("")])
    assert call(world, "GET", "/admin/v2/brokers/health")[0] == 200


def test_evictions_by_size_and_by_age_are_counted() -> None:
    # covers BQ-6, BQ-7, BQ-10
    world = World(default_quota_bytes=1_000, default_quota_policy="consumer_backlog_eviction")
    client = world.connect()
    client.open_producer()
    client.open_consumer()
    for number in range(4):
        client.publish(1, entry("x" * 400), first=number)
    found = metrics_of(world)
    name = "pulsar_storage_backlog_quota_exceeded_evictions_total"
    assert found[name, TOPIC, "size"] == found[f"pulsar_broker_{name[7:]}", "size"] > 0
    assert found[name, TOPIC, "time"] == 0
    aged = World(default_quota_time_s=10, default_quota_policy="consumer_backlog_eviction")
    client = aged.connect()
    client.open_producer()
    client.open_consumer()
    client.publish(1, entry("x", publish_time=aged.now_ms))
    aged.advance(60_000)
    assert metrics_of(aged)[name, TOPIC, "time"] == 1
    assert stats_of(aged)["backlogQuotaEvictions"] == {"size": 0, "time": 1}


def test_the_space_is_told_by_rest_and_metrics() -> None:
    world = World()
    space = {"sizeBytes": 1000, "freeBytes": 400, "fullReason": None}
    assert call(world, "GET", "/admin/v2/broker-stats/disk")[2] == space
    assert "\nspark_pulsar_disk_free_bytes 400\n" in call(world, "GET", "/metrics")[2]


def test_a_disk_that_does_not_answer_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_gate: Gate) -> tuple[int, int]:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Gate, "disk_space", fails)
    world = World()
    assert call(world, "GET", "/admin/v2/broker-stats/disk")[0] == 503
    status, _, text = call(world, "GET", "/metrics")
    assert (status, "disk_free" in text, "pulsar_active_connections" in text) == (200, False, True)
