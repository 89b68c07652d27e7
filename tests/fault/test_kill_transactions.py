"""A broker with transactions, killed again and again: each is there as a whole or not at all.

`CRASHES=200 pytest tests/fault/test_kill_transactions.py` kills more often; `CRASH_SEED` repeats a run's choices.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_pulsar.storage.offline.check import Severity, check
from spark_pulsar.testing.process import BrokerProcess
from tests.brokers import Broker
from tests.conformance.transactions.transacting import Transacting
from tests.eventually import eventually
from tests.fault.crash_load import Producing, quiet_client
from tests.fault.test_kill import SEED, SMALL, kills
from tests.fault.transaction_account import Account, Visible
from tests.fault.transaction_load import BATCH, ENOUGH_INPUTS, Findings, Sources, Worker, find_out
from tests.raw import NoFrame

NOTICED_WITHIN = 20
"""Kills until a broker that is broken on purpose must have been noticed."""
BROKEN = ["half", *(["early", "parts"] if "CRASHES" in os.environ else [])]
CONF = SMALL | {"transactionCoordinatorEnabled": True, "activeConsumerFailoverDelayTimeMillis": 0}
WORKERS = 2
PAUSE_S = 0.005
"""Between two messages of a producer without transactions: they are beside the point here."""


class _BrokenBroker(BrokerProcess):
    _module = "tests.fault.forgetful_broker"


class _Lives:
    """One broker, its topics, and all that was promised on them."""

    def __init__(self, broker: Broker, process: BrokerProcess) -> None:
        self.broker = broker
        self.process = process
        self.account = Account()
        self.findings = Findings()
        self.targets = [Visible(broker.topic("target")) for _ in range(3)]
        self.sources = Sources(broker, self.account, WORKERS)
        self._first = [0, 0, 0]
        for target in self.targets:
            transacting = Transacting(broker)
            transacting.subscribe(target.topic, name="keep", permits=0)
            transacting.raw.close()

    def live(self, life: int, choices: random.Random) -> None:
        """Runs clients for a while, and kills the broker under them."""
        least = [
            min(len(self.sources.unacked[each.name]) for each in self.sources.all() if each.source == source)
            for source in (self.sources.singles, self.sources.batches)
        ]
        singles, batches = (max(0, ENOUGH_INPUTS - each) for each in least)
        self.sources.publish(self.broker, singles, batches // BATCH)
        with quiet_client(self.broker) as client:
            producers = [
                Producing(client, target, f"plain-{number}", first, pause_s=PAUSE_S, batching_enabled=number == 1)
                for number, (target, first) in enumerate(zip(self.targets, self._first, strict=True))
            ]
            workers = [
                Worker(self.broker, self.account, self.sources, self.targets, number, choices.randrange(1 << 32), life)
                for number in range(WORKERS)
            ]
            wanted, is_while_ending = choices.randrange(3, 30), choices.random() < 0.6
            eventually(lambda: all(each.ended >= wanted or not each.is_alive() for each in workers), timeout_s=60)
            if is_while_ending:
                for worker in workers:
                    worker.end_at_once.set()
                eventually(lambda: any(each.is_asked.is_set() or not each.is_alive() for each in workers), every_s=0)
                threading.Event().wait(choices.choice((0, choices.random() * 0.004)))
            are_alive = all(each.is_alive() for each in workers)
            for worker in workers:
                worker.is_cut.set()
            self.broker.kill()
            for producer in producers:
                producer.stop()
        for worker in workers:
            worker.join(60)
        failures = [worker.failure for worker in workers if worker.failure is not None]
        assert not failures, f"{failures!r}"
        assert are_alive, "a worker ended before the kill"
        for producer in producers:
            producer.join()
        self._first = [producer.next for producer in producers]

    def judge(self, choices: random.Random) -> None:
        """Holds a broker that was started again to all that was promised."""
        for number, target in enumerate(self.targets):
            sent = range(self._first[number])
            self.account.plain.asked |= {(target.topic, (f"plain-{number}", each)) for each in sent}
        with quiet_client(self.broker) as client:
            early = {target.topic: target.with_new(client) for target in self.targets}
            were_open = find_out(self.broker, self.account.open_intents(), choices, self.findings)
            for intent in were_open:
                shown = [message for topic, message in intent.promised() if message in early[topic]]
                assert not shown, f"{intent}: {shown[:5]} was visible before it was ended"
            left = self.sources.left(self.broker)  # publishes: the last time-out is on disk then, and holds up nothing
            visible = {target.topic: target.with_new(client) for target in self.targets}
            self.account.judge(visible, left)
            committed = [each for each in self.account.intents if each.is_committed]
            for target in self.targets:
                target.promise(committed)
                target.verify_stored(client)

    def verify_all(self) -> None:
        """Reads everything once more."""
        with quiet_client(self.broker) as client:
            for target in self.targets:
                target.verify_stored(client, from_start=True)
        self.account.judge({target.topic: target.messages for target in self.targets}, self.sources.left(self.broker))

    def run(self, kills: int, data_dir: Path) -> None:
        """Kills the broker so often, and judges it each time."""
        choices = random.Random(SEED)
        for life in range(kills):
            try:
                self.live(life, choices)
                damage = [str(finding) for finding in check(data_dir) if finding.severity is Severity.ERROR]
                assert not damage, damage
                self.broker.restart()
                self.judge(choices)
            except AssertionError as error:
                error.add_note(f"seed {SEED}, life {life}; the broker said: {self.process.log[-3_000:]}")
                raise


@contextmanager
def _lives(kind: type[BrokerProcess], data_dir: Path) -> Iterator[_Lives]:
    """Those of a broker with transactions, with files so small that all that can happen to them does."""
    with kind(data_dir, CONF) as process:
        broker = Broker("ours", process.service_url, process.admin_url, process)
        try:
            yield _Lives(broker, process)
        finally:
            broker.close_since(0)


@kills(short=2, long=5)
def test_each_transaction_is_there_as_a_whole_or_not_at_all(tmp_path: Path, kills: int) -> None:
    # covers TX-3, TX-6, TX-7, TX-9, TX-11, TX-12, TX-13, TX-14, TX-15, TX-17, TX-18
    with _lives(BrokerProcess, tmp_path / "data") as lives:
        lives.run(kills, tmp_path / "data")
        lives.verify_all()
    intents = lives.account.intents
    assert len({intent.transaction for intent in intents}) == len(intents), "no id is used twice"
    outcomes = Counter("committed" if intent.is_committed else "aborted" for intent in intents)
    receipts = sum(target.receipt_count() for target in lives.targets)
    print(
        f"{kills} kills: {len(intents)} transactions, {dict(outcomes)}, {lives.findings}; {receipts} visible messages "
    )
    print(f"with a receipt; acks by kind: {dict(lives.account.answered_acks)}; seed {SEED}")


@pytest.mark.long
@pytest.mark.parametrize("broken", BROKEN)
def test_a_broker_whose_transactions_are_broken_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.setenv("BROKEN", broken)
    with _lives(_BrokenBroker, tmp_path / "data") as lives, pytest.raises(AssertionError) as noticed:
        lives.run(NOTICED_WITHIN, tmp_path / "data")
    assert not isinstance(noticed.value, NoFrame), "it is the judge that notices"
    print(f"{broken}: {noticed.value}"[:300])
