"""Executors of a standalone cluster are killed under a query with source and sink: no row is missing."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pulsar
import pytest

from tests.brokers import Broker
from tests.cluster.spark_cluster import ROOT, WORKERS, configure, environment, make_python
from tests.eventually import eventually

PARTITIONS = 4
ROWS = 20_000
MORE_ROWS = 1_000
ROWS_OF_A_MICRO_BATCH = 500


def executors(master: str) -> list[int]:
    """Process ids of the executors that the workers of this master run, in the order of the workers."""
    workers = [each for each in psutil.process_iter() if _is(each, "deploy.worker.Worker", master)]
    found = [child.pid for each in workers for child in each.children() if _is(child, "CoarseGrainedExecutorBackend")]
    return sorted(found)


def _is(process: psutil.Process, *words: str) -> bool:
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:  # it has ended
        return False
    return all(word in command for word in words)


def send(broker: Broker, topic: str, first: int, count: int) -> None:
    producer = broker.client().create_producer(topic, block_if_queue_full=True, batching_enabled=True)
    for number in range(first, first + count):
        producer.send_async(str(number).encode(), None, partition_key=str(number))
    producer.flush()
    producer.close()


def copied(broker: Broker, topic: str) -> Counter[int]:
    client, found = broker.client(), Counter[int]()
    for partition in client.get_topic_partitions(topic):
        reader = client.create_reader(partition, pulsar.MessageId.earliest)
        while reader.has_message_available():
            found[int(reader.read_next(10_000).data())] += 1
        reader.close()
    return found


@pytest.mark.long
def test_killed_executors_lose_no_row(master: str, broker: Broker, tmp_path: Path) -> None:
    source, target = broker.topic("source", PARTITIONS), broker.topic("target", PARTITIONS)
    send(broker, source, 0, ROWS)
    configure(tmp_path / "conf")
    surroundings = environment(make_python(tmp_path / "python", "everything"), tmp_path / "conf")
    program = [str(ROOT / "tests" / "cluster" / "copying.py"), broker.service_url, source, target, str(tmp_path)]
    program.append(str(ROWS_OF_A_MICRO_BATCH))
    log = tmp_path / "job.log"
    with log.open("wb") as output:
        job = subprocess.Popen(
            ["spark-submit", "--master", master, *program],
            cwd=tmp_path,
            env=surroundings,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    commits = tmp_path / "checkpoint" / "commits"

    def done() -> int:
        return len(list(commits.glob("[0-9]*")))

    def comes(condition: Callable[[], bool]) -> None:
        eventually(lambda: job.poll() is not None or condition(), 180)
        assert job.poll() is None, log.read_text()[:6_000]

    try:
        comes(lambda: done() >= 2 and len(executors(master)) == WORKERS)
        for number in range(WORKERS):
            before = executors(master)
            assert done() * ROWS_OF_A_MICRO_BATCH < ROWS, "there is nothing left that a killed executor could lose"
            os.kill(before[number], signal.SIGKILL)
            until = done() + 2
            comes(lambda until=until: done() >= until)
            # The worker starts another in its place.
            comes(lambda gone=before[number]: len(set(executors(master)) - {gone}) == WORKERS)
        send(broker, source, ROWS, MORE_ROWS)
        (tmp_path / "end").touch()
        assert job.wait(240) == 0, log.read_text()[:6_000]
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    assert set(copied(broker, target)) == set(range(ROWS + MORE_ROWS))  # at least once
