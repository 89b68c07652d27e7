"""A loaded broker, killed again and again: nothing that was promised is lost.

`CRASHES=200 pytest tests/fault/test_kill.py` kills more often; `CRASH_SEED` repeats a run's choices.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_pulsar.storage.offline.check import Severity, check
from spark_pulsar.testing.process import BrokerProcess
from tests.brokers import Broker
from tests.eventually import eventually
from tests.fault.crash_load import (
    Acking,
    AckingIndexes,
    AckingSingly,
    AckingUpTo,
    Producing,
    Promises,
    quiet_client,
    subscribe,
)


def kills(short: int, long: int) -> pytest.MarkDecorator:
    """How often a test kills its broker: as CRASHES says, else in a short form and a long one."""
    chosen = os.environ.get("CRASHES")
    numbers = [int(chosen)] if chosen else [short, pytest.param(long, marks=pytest.mark.long)]
    return pytest.mark.parametrize("kills", numbers)


SEED = int(os.environ.get("CRASH_SEED", "20261121"))
BATCH = 20

# Everything happens often: segments fill and settle, ledgers roll, reads miss the cache. The consumers fall far behind.
SMALL = {
    "acknowledgmentAtBatchIndexLevelEnabled": True,
    "journalMaxSizeMB": 1,
    "managedLedgerMaxEntriesPerLedger": 700,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "managedLedgerCacheSizeMB": 1,
    "maxUnackedMessagesPerConsumer": 0,
    "maxUnackedMessagesPerSubscription": 0,
}


@pytest.fixture
def crashing(tmp_path: Path) -> Iterator[Broker]:
    """A broker that may be killed, with files so small that all that can happen to them does."""
    with BrokerProcess(tmp_path / "data", SMALL) as process:
        yield Broker("ours", process.service_url, process.admin_url, process)


@kills(short=3, long=10)
def test_no_receipt_and_no_ack_is_lost(crashing: Broker, tmp_path: Path, kills: int) -> None:
    # covers ACK-4, CUR-3, CUR-4, CUR-6, PR-9, A5
    choices = random.Random(SEED)
    singles, batches = Promises(crashing.topic("singles")), Promises(crashing.topic("batches"))
    numbers = {"a": 0, "b": 0, "c": 0}
    for promises in (singles, batches):
        raw = crashing.raw()
        # Never consumed: it keeps every message for the accounts.
        subscribe(raw, promises.topic, "keep", "Shared")
        raw.close()
    for crash in range(kills):
        with quiet_client(crashing) as client:
            producers = [
                Producing(client, singles, "a", numbers["a"]),
                Producing(client, singles, "b", numbers["b"]),
                Producing(
                    client,
                    batches,
                    "c",
                    numbers["c"],
                    batching_enabled=True,
                    batching_max_messages=BATCH,
                    batching_max_publish_delay_ms=5,
                ),
            ]
            consumers: list[Acking] = [
                AckingSingly(crashing, singles, "singly", choices.randrange(2**32)),
                AckingUpTo(crashing, singles, "up-to", choices.randrange(2**32)),
                AckingIndexes(crashing, batches, "indexes", choices.randrange(2**32)),
            ]
            receipts = singles.receipt_count() + choices.randrange(100, 1_500)
            acks = singles.ack_count() + choices.randrange(100, 1_500)
            eventually(lambda at=receipts: singles.receipt_count() >= at, timeout_s=60)
            eventually(lambda at=acks: singles.ack_count() >= at, timeout_s=60)
            crashing.kill()
            for producer in producers:
                producer.stop()
        for worker in [*producers, *consumers]:
            worker.join()
        numbers = {name: producer.next for name, producer in zip(numbers, producers, strict=True)}
        assert not singles.broken + batches.broken, f"seed {SEED}, life {crash}: {singles.broken + batches.broken}"
        damage = [str(finding) for finding in check(tmp_path / "data") if finding.severity is Severity.ERROR]
        assert not damage, f"seed {SEED}, crash {crash}: {damage}"
        crashing.restart()
        with quiet_client(crashing) as client:
            singles.verify_stored(client)
            batches.verify_stored(client)
    with quiet_client(crashing) as client:
        singles.verify_stored(client, from_start=True)
        batches.verify_stored(client, from_start=True)
    _settle_accounts(crashing, singles, ["singly", "up-to"])
    _settle_accounts(crashing, batches, ["indexes"])
    print(f"{kills} crashes: {singles.receipt_count() + batches.receipt_count()} receipted messages, ", end="")
    print(f"{singles.ack_count() + batches.ack_count()} answered acknowledgements, seed {SEED}")


def _settle_accounts(broker: Broker, promises: Promises, subscriptions: list[str]) -> None:
    """Every stored entry is either delivered once more, or its acknowledgement was at least asked for."""
    for subscription in subscriptions:
        raw = broker.raw()
        subscribe(raw, promises.topic, subscription, "Shared")
        whole = {place for place, size in promises.stored.items() if _is_acked(promises, subscription, place, size)}
        asked = promises.asked[subscription]
        due = set(promises.stored) - asked
        left = set(due)
        while (frame := raw.next_frame(30 if left else 0.5)) is not None:
            place = frame.position
            left.discard(place)
            assert place not in whole, f"seed {SEED}: {subscription}: {place} came again after the last crash"
            assert place in promises.stored, f"seed {SEED}: {subscription}: {place} was not stored"
            raw.send("FLOW", consumer_id=1, messagePermits=BATCH)
        assert not left, f"seed {SEED}: {subscription}: {len(left)} of {len(due)} never came: {sorted(left)[:10]}"
        raw.close()


def _is_acked(promises: Promises, subscription: str, place: tuple[int, int], size: int) -> bool:
    if place in promises.acked.get(subscription, ()):
        return True
    return promises.acked_indexes.get(subscription, {}).get(place, 0) == (1 << size) - 1
