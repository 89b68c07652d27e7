"""`spark-pulsar bench`, against either broker: short runs whose sums must add up."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from typer.testing import CliRunner, Result

from spark_pulsar.cli.main import app
from tests.brokers import Broker
from tests.eventually import eventually


def bench(broker: Broker, kind: str, topic: str, *words: str) -> Result:
    return CliRunner().invoke(app, ["bench", kind, topic, "-u", broker.service_url, *words])


def subscriptions(broker: Broker, topic: str) -> list[str]:
    status, found = broker.rest("GET", f"/admin/v2/{topic.replace('://', '/')}/subscriptions")
    return list(found) if status == 200 else []


def test_what_was_produced_is_read(broker: Broker, topic: str) -> None:
    done = bench(broker, "produce", topic, "-n", "1001", "--producers", "2", "--size", "100", "-o", "json")
    assert done.exit_code == 0, done.stderr
    produced = json.loads(done.stdout)
    assert (produced["messages"], produced["size"], produced["failed"]) == (1001, 100, 0)
    assert list(produced["latency_ms"]) == ["mean", "p50", "p95", "p99", "p99.9", "max"]
    assert produced["messages_per_s"] > 0
    assert produced["client"].startswith("pulsar-client ")
    read = json.loads(bench(broker, "read", topic, "-o", "json").stdout)
    assert (read["messages"], "latency_ms" in read) == (1001, False)
    assert json.loads(bench(broker, "read", topic, "-n", "7", "-o", "json").stdout)["messages"] == 7


def test_latencies_of_consuming_are_end_to_end_and_the_subscription_is_removed(broker: Broker, topic: str) -> None:
    command = [sys.executable, "-m", "spark_pulsar", "bench", "consume", topic, "-u", broker.service_url]
    consuming = subprocess.Popen(
        [*command, "-n", "50", "--consumers", "2", "-t", "shared"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    eventually(lambda: subscriptions(broker, topic))
    produced = bench(broker, "produce", topic, "--rate", "50", "--time", "2s", "-s", "10", "--no-batching")
    received, said = consuming.communicate(timeout=30)
    lines = produced.stdout.splitlines()
    number = int(re.match(r"([0-9]+) messages in ", lines[-2])[1])  # type: ignore[index]
    assert 50 < number <= 110
    assert re.match(r" +1 s +[0-9]+ messages/s +0.00 MB/s  latency ms: mean [0-9.]+  p50 ", lines[0])
    assert consuming.returncode == 0, said
    assert "latency ms: mean" in received.splitlines()[-1]
    assert not subscriptions(broker, topic)


def test_refusals_are_counted_and_reading_makes_no_topic(broker: Broker, topic: str) -> None:
    done = bench(broker, "produce", broker.topic(), "-n", "2", "--size", "6M")
    assert (done.exit_code, "TooBig" in done.stderr) == (1, True)
    done = bench(broker, "read", topic)
    assert (done.exit_code, "not found" in done.stderr) == (1, True), done.stderr
    assert topic not in broker.rest("GET", "/admin/v2/persistent/public/default")[1]


def test_options_that_do_not_fit(broker: Broker) -> None:
    for words, said in (
        (("consume", "t", "--consumers", "2"), "--type Shared"),
        (("produce", "t", "--size", "big"), "Invalid size"),
        (("produce", "t", "--time", "-5s"), "want a time"),
        (("read", "t", "--from", "middle"), "'middle' is not one of"),
    ):
        done = bench(broker, *words)
        assert (done.exit_code, said in " ".join(done.stderr.split())) == (2, True), done.stderr
