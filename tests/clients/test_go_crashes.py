"""The official Go client copies a topic in transactions, and it and the broker are killed: each message is in the copy
once.

`CRASHES=200 pytest tests/clients/test_go_crashes.py` kills more often; `CRASH_SEED` repeats a run's choices.
"""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import Future
from typing import Final

import pytest

from tests.brokers import Broker
from tests.clients import crashing
from tests.clients.conftest import Clients
from tests.clients.crashing import SEED, Crash, crashes
from tests.clients.go_client import ANSWER_TIMEOUT_S, SHARED, GoClient, GoError, Message, texts
from tests.clients.stats import backlog, open_transactions
from tests.eventually import eventually

CRASHES: Final = crashing.CRASHES or 8
MESSAGES_A_CRASH: Final = 15
MOST_MESSAGES: Final = 5
"""Of one transaction."""
TIMEOUT_MS: Final = 2_000
"""Of a transaction: what a killed client left open is aborted then."""
PATIENT_MS: Final = 15_000
SHORT_MS: Final = 300
TRIES: Final = 3
# Its time is over on a slow machine, and messages that it held come again.
MAY_FAIL: Final = re.compile("TransactionNotFound|TransactionConflict|TxnTimeout|TxnError|non-open transaction")


class Copier:
    """A Go process with a consumer of the source and a producer to the target; it lives until its crash."""

    def __init__(self, client: GoClient, broker: Broker, source: str, target: str) -> None:
        self._client = client
        self._broker = broker
        self._consumer = client.consumer(source, type_=SHARED)
        self._producer = client.producer(target)
        self.unanswered = 0
        """Commits that were not answered when the crash came."""

    def run(self, crash: Crash) -> bool:
        """Copies until the crash; whether it came before a transaction failed."""
        for number in range(crash.transactions + 1):
            messages = self._consumer.receive_up_to(1, PATIENT_MS) + self._consumer.receive_up_to(MOST_MESSAGES - 1, 20)
            assert messages, f"nothing to copy before {crash}"
            if self._copy(messages, crash if number == crash.transactions else None):
                return True
        return False

    def drain(self) -> None:
        """Copies until nothing comes for a moment."""
        while messages := self._consumer.receive_up_to(MOST_MESSAGES, SHORT_MS):
            self._copy(messages, None)

    def _copy(self, messages: list[Message], crash: Crash | None) -> bool:
        """Copies the messages in a transaction; whether the crash came."""
        try:
            if self._comes("received", crash):
                return True
            transaction = self._client.begin(TIMEOUT_MS)
            self._producer.send(*texts(messages), in_=transaction)
            if self._comes("sent", crash):
                return True
            self._consumer.ack(*messages, in_=transaction)
            if self._comes("acknowledged", crash):
                return True
            ending = transaction.start_commit()
            if self._comes("committing", crash, ending):
                return True
            ending.result(ANSWER_TIMEOUT_S)
        except GoError as error:
            if not MAY_FAIL.search(str(error)):
                raise
            self._consumer.nack(*messages)
            return False
        return self._comes("committed", crash)

    def _comes(self, step: str, crash: Crash | None, ending: Future[None] | None = None) -> bool:
        if crash is None or crash.step != step:
            return False
        crash.wait()
        self.unanswered += ending is not None and not ending.done()
        if crash.victim == "client":
            self._client.close()
        else:
            self._broker.kill()
            self._client.close()
            self._broker.restart()
        return True


@pytest.mark.ours_only("TX-11")
def test_consume_process_produce_with_crashes(own_broker: Broker, clients: Clients) -> None:
    # covers TX-3, TX-6, TX-7, TX-12, TX-17
    source, target = own_broker.topic("source"), own_broker.topic("target")
    first = clients(own_broker)
    wanted = [f"m{index}" for index in range(MESSAGES_A_CRASH * CRASHES)]
    first.consumer(source, type_=SHARED).close()
    first.consumer(target, "check").close()  # else the target keeps nothing over a restart
    first.producer(source).send(*wanted)
    first.close()
    history = []
    for crash in crashes(f"{SEED}/Go", CRASHES, with_broker=True):
        for _ in range(TRIES):
            copier = Copier(clients(own_broker, EnableTransaction=True), own_broker, source, target)
            is_crashed = copier.run(crash)
            history.append((crash, copier.unanswered, is_crashed))
            if is_crashed:
                break
        else:
            pytest.fail(f"{crash} never came: {history}")
    last = clients(own_broker, EnableTransaction=True)
    copier = Copier(last, own_broker, source, target)

    def is_copied() -> bool:
        copier.drain()
        return backlog(own_broker, source, "s") == 0 and open_transactions(own_broker) == 0

    eventually(is_copied, timeout_s=60)
    found = last.reader(target).receive_up_to(len(wanted) + 1, 1_000)
    assert Counter(texts(found)) == Counter(wanted), history
