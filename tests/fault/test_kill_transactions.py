"""A broker with transactions, killed again and again: each is there as a whole or not at all.

`CRASHES=200 pytest tests/fault/test_kill_transactions.py` kills more often; `CRASH_SEED` repeats a run's choices.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_pulsar.storage.offline.check import Severity, check
from spark_pulsar.testing.process import BrokerProcess
from tests.brokers import Broker
from tests.conformance.transactions import Transacting
from tests.eventually import eventually
from tests.fault.test_kill import CRASHES, SEED, SMALL
from tests.fault.transaction_load import INPUTS_A_LIFE, SUBSCRIPTION, Intent, Load, find_out, left, stored

LIVES = max(3, CRASHES // 2)


@pytest.fixture
def crashing(tmp_path: Path) -> Iterator[Broker]:
    """A broker with transactions that may be killed, with files so small that all that can happen to them does."""
    with BrokerProcess(tmp_path / "data", SMALL | {"transactionCoordinatorEnabled": True}) as process:
        yield Broker("ours", process.service_url, process.admin_url, process)


def test_each_transaction_is_there_as_a_whole_or_not_at_all(crashing: Broker, tmp_path: Path) -> None:
    # covers TX-3, TX-6, TX-11, TX-12, TX-17
    choices = random.Random(SEED)
    source, targets = crashing.topic("source"), [crashing.topic("target") for _ in range(3)]
    for topic, subscription in [(source, SUBSCRIPTION), *((topic, "keep") for topic in targets)]:
        transacting = Transacting(crashing)
        transacting.subscribe(topic, name=subscription, permits=0)
        transacting.raw.close()
    inputs: set[bytes] = set()
    intents: list[Intent] = []
    for life in range(LIVES):
        seed = choices.randrange(1 << 32)
        load = Load(crashing, source, targets, seed)
        wanted = choices.randrange(5, 60)
        eventually(lambda load=load, wanted=wanted: load.ended >= wanted or not load.is_alive(), timeout_s=60)
        assert load.is_alive(), f"seed {SEED}, life {life}: {load.failure!r}"
        crashing.kill()
        load.join(60)
        assert load.failure is None, f"seed {SEED}, life {life}: {load.failure!r}"
        inputs |= {f"{seed}-{number}".encode() for number in range(INPUTS_A_LIFE)}
        intents += load.intents
        damage = [str(finding) for finding in check(tmp_path / "data") if finding.severity is Severity.ERROR]
        assert not damage, f"seed {SEED}, life {life}: {damage}"
        crashing.restart()
        find_out(crashing, load.intents)
        _verify(crashing, source, targets, inputs, intents, f"seed {SEED}, life {life}")
    assert len({intent.transaction for intent in intents}) == len(intents), "no id is used twice"
    committed = sum(intent.is_committed for intent in intents)
    print(f"{LIVES} crashes: {len(intents)} transactions, {committed} of them committed, seed {SEED}")


def _verify(
    broker: Broker, source: str, targets: list[str], inputs: set[bytes], intents: list[Intent], place: str
) -> None:
    committed = [intent for intent in intents if intent.is_committed]
    for topic in targets:
        wanted = [payload for intent in committed for payload in intent.messages[topic]]
        found = stored(broker, topic)
        assert sorted(found) == sorted(wanted), f"{place}: {topic}"
        for intent in committed:
            own = [payload for payload in found if payload in set(intent.messages[topic])]
            assert own == intent.messages[topic], f"{place}: out of order on {topic}"
    acked = {payload for intent in committed for payload in intent.acks}
    assert sorted(left(broker, source, len(inputs - acked))) == sorted(inputs - acked), f"{place}: {source}"
