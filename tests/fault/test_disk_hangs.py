"""A broker whose disk hangs: writes of its journal do not return for a while, and nothing fails."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from spark_pulsar.testing.process import BrokerProcess
from tests.eventually import eventually
from tests.fault.crash_load import QUIET_CLIENT
from tests.fault.test_disk_of_a_broker import FaultyBroker, in_order

TOPIC = "persistent://public/default/t"
STATS = "admin/v2/persistent/public/default/t"
NOTICED_S = 10
"""Time within which a hang is to be noticed."""


@pytest.fixture
def process(tmp_path: Path, faults: Path) -> Iterator[BrokerProcess]:
    with FaultyBroker(tmp_path / "data") as started:
        yield started
        faults.unlink(missing_ok=True)


def call(process: BrokerProcess, path: str, method: str = "GET") -> tuple[int, bytes]:
    """Status and body of a request, which must be answered soon."""
    request = urllib.request.Request(f"{process.admin_url}/{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def metric(process: BrokerProcess, name: str) -> float:
    lines = call(process, "metrics")[1].decode().splitlines()
    return float(next(line for line in lines if line.startswith(name)).rpartition(" ")[2])


@pytest.mark.timeout(180)
def test_a_hang_is_noticed_and_survived(process: BrokerProcess, faults: Path) -> None:
    # covers DUR-15
    client = pulsar.Client(process.service_url, operation_timeout_seconds=60, logger=QUIET_CLIENT)
    receipts: list[int] = []
    consumer = client.subscribe(TOPIC, "s")
    producer = client.create_producer(TOPIC, batching_enabled=False, send_timeout_millis=0)

    def send(number: int) -> None:
        producer.send_async(b"%d" % number, lambda result, _: receipts.append(number) if not result.value else None)

    for number in range(3):
        send(number)
    eventually(lambda: len(receipts) == 3)
    assert call(process, "admin/v2/brokers/health") == (200, b"ok")
    assert metric(process, "spark_pulsar_disk_hangs") == 0

    faults.write_text("hang")
    send(3)
    began_s = time.monotonic()
    eventually(lambda: call(process, "admin/v2/brokers/health")[0] == 503, timeout_s=NOTICED_S)
    assert time.monotonic() - began_s < NOTICED_S
    reason = json.loads(call(process, "admin/v2/brokers/health")[1])["reason"]
    assert reason == "The broker takes no messages: the disk hangs, a synced write takes more than 5 s"
    assert process.log.count("ERROR") == process.log.count("the disk hangs, a synced write takes more than 5 s") == 1
    assert metric(process, "spark_pulsar_disk_hangs") == 1
    assert metric(process, "pulsar_health") == 0
    # What is in memory is served.
    assert json.loads(call(process, f"{STATS}/stats")[1])["subscriptions"]["s"]["msgBacklog"] >= 3
    assert call(process, f"{STATS}/subscription/s/position/2") == (200, b"1")
    assert call(process, f"{STATS}/internalStats")[0] == 200
    assert [consumer.receive(timeout_millis=10_000).data() for _ in range(3)] == [b"0", b"1", b"2"]
    # What changes something is refused, and may be tried again.
    status, body = call(process, "admin/v2/persistent/public/default/new", "PUT")
    assert (status, b"try again" in body) == (503, True), body
    assert len(receipts) == 3

    send(4)
    faults.unlink()
    eventually(lambda: receipts == [0, 1, 2, 3, 4], timeout_s=20)
    eventually(lambda: call(process, "admin/v2/brokers/health") == (200, b"ok"))
    assert metric(process, "spark_pulsar_disk_hangs") == 0
    assert process.log.count("the disk goes on, after more than") == 1
    assert [consumer.receive(timeout_millis=10_000).data() for _ in range(2)] == [b"3", b"4"]
    assert call(process, "admin/v2/persistent/public/default/new", "PUT")[0] in (204, 409)
    client.close()
    in_order(process)
