"""Transactions over several topics and a subscription, for a broker that is killed: what each was promised."""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from dataclasses import dataclass, field

from tests.brokers import Broker
from tests.conformance.transactions import Position, Transacting, Transaction, refusal
from tests.raw import NoFrame

INPUTS_A_LIFE = 300
OPEN_AT_MOST = 3
SUBSCRIPTION = "in"


@dataclass
class Intent:
    """A transaction: its messages with a receipt by topic, its acks with one, and its outcome as far as it is known."""

    transaction: Transaction
    messages: dict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    acks: list[bytes] = field(default_factory=list)
    asked: str | None = None
    """COMMIT or ABORT, once that was asked for."""
    is_ended: bool = False
    is_committed: bool = False


class Load(threading.Thread):
    """Begins, uses and ends transactions on one connection until that breaks."""

    def __init__(self, broker: Broker, source: str, targets: list[str], seed: int) -> None:
        super().__init__(daemon=True)
        self.intents: list[Intent] = []
        self.ended = 0
        self.failure: AssertionError | None = None
        self._choices = random.Random(seed)
        self._targets = targets
        self._transacting = Transacting(broker)
        self._inputs: list[tuple[Position, bytes]] = []
        for producer_id, topic in enumerate([source, *targets], 1):
            self._transacting.produce(topic, producer_id)
        for number in range(INPUTS_A_LIFE):
            self._transacting.send(f"{seed}-{number}".encode())
        self._transacting.subscribe(source, name=SUBSCRIPTION, permits=10_000)
        self.start()

    def run(self) -> None:
        try:
            while True:
                self._step()
        except (NoFrame, OSError):
            self._transacting.raw.close()
        except AssertionError as failure:
            self.failure = failure

    def _step(self) -> None:
        open_ones = [intent for intent in self.intents if intent.asked is None]
        choice = self._choices.random()
        if not open_ones or (len(open_ones) < OPEN_AT_MOST and choice < 0.2):
            self.intents.append(Intent(self._transacting.begin()))
            return
        intent = self._choices.choice(open_ones)
        if choice < 0.6:
            self._send(intent)
        elif choice < 0.8:
            self._ack(intent)
        else:
            self._end(intent, "COMMIT" if self._choices.random() < 0.6 else "ABORT")

    def _send(self, intent: Intent) -> None:
        index = self._choices.randrange(len(self._targets))
        payload = f"{intent.transaction[1]}/{sum(map(len, intent.messages.values()))}".encode()
        self._transacting.send(payload, intent.transaction, index + 2)
        intent.messages[self._targets[index]].append(payload)

    def _ack(self, intent: Intent) -> None:
        frame = self._transacting.raw.expect("MESSAGE")
        assert frame.payload is not None
        assert refusal(self._transacting.ack(frame.position, intent.transaction)) == (None, "")
        intent.acks.append(frame.payload)

    def _end(self, intent: Intent, action: str) -> None:
        intent.asked = action
        assert refusal(self._transacting.end(intent.transaction, action)) == (None, "")
        intent.is_ended, intent.is_committed = True, action == "COMMIT"
        self.ended += 1


def find_out(broker: Broker, intents: list[Intent]) -> None:
    """Ends the transactions that a killed broker left open, and so learns what became of the others."""
    transacting = Transacting(broker)
    for intent in intents:
        if not intent.is_ended:
            error, _ = refusal(transacting.end(intent.transaction, "ABORT"))
            assert error in (None, "TransactionNotFound"), error
            intent.is_ended = True
            intent.is_committed = error is not None and intent.asked == "COMMIT"
            assert error is None or intent.asked is not None, "nothing ended it"
    transacting.raw.close()


def stored(broker: Broker, topic: str) -> list[bytes]:
    """Messages that a reader gets, in their order."""
    transacting = Transacting(broker)
    transacting.subscribe(topic, "Exclusive", "reader", durable=False, permits=100_000)
    last = transacting.last_position()
    payloads: list[bytes] = []
    place: Position = (-1, -1)
    while last[0] < 1 << 62 and place < last:
        frame = transacting.raw.expect("MESSAGE")
        assert frame.payload is not None
        place = frame.position
        payloads.append(frame.payload)
    transacting.raw.expect_no_message()
    transacting.raw.close()
    return payloads


def left(broker: Broker, source: str, count: int) -> list[bytes]:
    """Messages that the subscription still has."""
    transacting = Transacting(broker)
    transacting.subscribe(source, name=SUBSCRIPTION, permits=100_000)
    payloads = [frame.payload or b"" for frame in transacting.raw.expect_messages(count)]
    transacting.raw.expect_no_message()
    transacting.raw.close()
    return payloads
