"""A broker that is killed under a de-duplicating producer and while it compacts: each message stored once, and the
compacted view is that of the last values at any time.

`CRASHES=200 pytest tests/fault/test_kill_once.py` kills more often; `CRASH_SEED` repeats a run's choices.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from spark_pulsar.storage.offline.check import Severity, check
from spark_pulsar.testing.process import BrokerProcess
from tests.brokers import Broker, topic_path
from tests.eventually import eventually
from tests.fault.crash_load import READ_TIMEOUT_MS, quiet_client
from tests.fault.test_kill import SEED, SMALL, kills

BURST = 1_500
KEYS = 40


@pytest.fixture
def deduplicating(tmp_path: Path) -> Iterator[Broker]:
    """A broker that may be killed, with small files and de-duplication."""
    with BrokerProcess(tmp_path / "data", SMALL | {"brokerDeduplicationEnabled": True}) as process:
        yield Broker("ours", process.service_url, process.admin_url, process)


def _key(number: int) -> str:
    return f"k{number % KEYS}"


def _read(client: pulsar.Client, topic: str, *, compacted: bool) -> list[int]:
    """All numbers that a reader gets."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=compacted)
    numbers: list[int] = []
    while reader.has_message_available():
        numbers.append(int(reader.read_next(timeout_millis=READ_TIMEOUT_MS).data()))
    reader.close()
    return numbers


class _Burst(threading.Thread):
    """Sends numbers; counts receipts."""

    def __init__(self, producer: pulsar.Producer, first: int) -> None:
        super().__init__()
        self.receipts: list[Any] = []
        self._producer = producer
        self._first = first
        self.start()

    def run(self) -> None:
        for number in range(self._first, self._first + BURST):
            self._producer.send_async(str(number).encode(), self._receipt, partition_key=_key(number))

    def _receipt(self, result: Any, _message_id: pulsar.MessageId) -> None:
        self.receipts.append(result)

    def await_receipts(self, count: int) -> None:
        """Waits for so many receipts."""
        eventually(lambda: len(self.receipts) >= count, timeout_s=120)


@kills(short=2, long=5)
def test_each_message_is_stored_once(deduplicating: Broker, tmp_path: Path, kills: int) -> None:
    # covers DED-5, DED-7, DED-11, CMP-C4
    choices, topic = random.Random(SEED), deduplicating.topic()
    compaction = f"{topic_path(topic)}/compaction"
    with quiet_client(deduplicating) as client:
        client.subscribe(topic, "keep", initial_position=pulsar.InitialPosition.Earliest).close()
        producer = client.create_producer(topic, producer_name="p", send_timeout_millis=0, block_if_queue_full=True)
        for life in range(kills):
            burst = _Burst(producer, life * BURST)
            enough, asks_at = choices.randrange(1, BURST), choices.randrange(BURST)
            burst.await_receipts(min(enough, asks_at))
            if asks_at < enough:
                assert deduplicating.rest("PUT", compaction)[0] == 204
            burst.await_receipts(enough)
            deduplicating.kill()
            damage = [str(finding) for finding in check(tmp_path / "data") if finding.severity is Severity.ERROR]
            assert not damage, f"seed {SEED}, life {life}: {damage}"
            deduplicating.restart()
            burst.await_receipts(BURST)
            burst.join()
            assert set(burst.receipts) == {pulsar.Result.Ok}
            sent = (life + 1) * BURST
            view = _read(client, topic, compacted=True)
            last = {_key(number): number for number in view}
            assert last == {_key(number): number for number in range(sent)}, f"seed {SEED}, life {life}"
            assert view == sorted(view), f"seed {SEED}, life {life}"
        assert _read(client, topic, compacted=False) == list(range(sent)), f"seed {SEED}"
        assert deduplicating.rest("PUT", compaction)[0] == 204
        eventually(lambda: deduplicating.rest("GET", compaction)[1]["status"] == "SUCCESS", timeout_s=60)
        assert _read(client, topic, compacted=True) == list(range(sent - KEYS, sent))
