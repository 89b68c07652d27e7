"""A load that remembers what it was promised, for a broker that gets killed.

Producers note each receipt, consumers each answered acknowledgement. `Promises` holds both over all lives of the broker
and finds what was broken; values are made from producer and number, so that every byte can be checked.
"""

from __future__ import annotations

import os
import random
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pulsar

from tests.brokers import Broker
from tests.raw import Frame, RawConnection

Place = tuple[int, int]
# A client whose broker is gone has a lot to say.
QUIET_CLIENT = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
PERMITS = 1_000
READ_TIMEOUT_MS = 60_000


def value_of(producer: str, number: int) -> bytes:
    """The producer's message of that number: its name, the number, and some hundred bytes."""
    filler = random.Random(f"{producer}/{number}")
    return f"{producer}/{number}/".encode() + filler.randbytes(filler.randrange(400))


class Promises:
    """Receipts and answered acknowledgements of one topic.

    Attributes:
        receipts: Producer → number → message id of the receipt.
        acked: Subscription → entries whose acknowledgement was answered.
        acked_indexes: Subscription → entry → bit mask of the answered indexes of its batch.
        asked: Subscription → entries whose acknowledgement was sent, answered or not.
        broken: What was delivered although its acknowledgement had been answered, or in a wrong order.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.receipts: dict[str, dict[int, pulsar.MessageId]] = {}
        self.acked: dict[str, set[Place]] = {}
        self.acked_indexes: dict[str, dict[Place, int]] = {}
        self.asked: dict[str, set[Place]] = {}
        self.broken: list[str] = []
        self.stored: dict[Place, int] = {}
        self._verified_to = pulsar.MessageId.earliest
        self._last_number: dict[str, int] = {}
        self._seen: dict[str, int] = {}

    def receipt_count(self) -> int:
        """Receipts so far, of all producers."""
        return sum(map(len, self.receipts.values()))

    def ack_count(self) -> int:
        """Answered acknowledgements so far, of all subscriptions."""
        return sum(map(len, self.acked.values())) + sum(map(len, self.acked_indexes.values()))

    def verify_stored(self, client: pulsar.Client, from_start: bool = False) -> None:
        """Read what was stored since the last call (or everything), and hold it against the receipts."""
        if from_start:
            self._verified_to = pulsar.MessageId.earliest
            self.stored, self._last_number, self._seen = {}, {}, {}
        reader = client.create_reader(self.topic, self._verified_to, receiver_queue_size=2_000)
        while reader.has_message_available():
            message = reader.read_next(timeout_millis=READ_TIMEOUT_MS)
            self._verify(message)
            self._verified_to = message.message_id()
        reader.close()
        for producer, receipts in self.receipts.items():
            found = self._seen.get(producer, 0)
            assert found == len(receipts), f"{producer}: {found} of {len(receipts)} receipted messages are stored"

    def _verify(self, message: pulsar.Message) -> None:
        value, message_id = message.data(), message.message_id()
        producer, number_text, _ = value.decode(errors="replace").split("/", 2)
        number = int(number_text)
        assert value == value_of(producer, number), f"{message_id}: {producer}/{number} is not what was sent"
        last = self._last_number.get(producer, -1)
        assert number > last, f"{message_id}: {producer} has {number} after {last}"
        self._last_number[producer] = number
        receipt = self.receipts.get(producer, {}).get(number)
        if receipt is not None:
            assert receipt == message_id, f"{producer}/{number} is stored at {message_id}, its receipt said {receipt}"
            self._seen[producer] = self._seen.get(producer, 0) + 1
        place = message_id.ledger_id(), message_id.entry_id()
        self.stored[place] = max(self.stored.get(place, 1), message_id.batch_index() + 1)


class Producing:
    """One producer with receipts in flight, until its broker is gone; `pause_s`: between two messages."""

    def __init__(
        self, client: pulsar.Client, promises: Promises, name: str, first: int, *, pause_s: float = 0, **settings: Any
    ) -> None:
        self._producer = client.create_producer(
            promises.topic, producer_name=name, block_if_queue_full=True, max_pending_messages=300, **settings
        )
        self._receipts = promises.receipts.setdefault(name, {})
        self._name = name
        self._pause_s = pause_s
        self.next = first
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"producer-{name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._pause_s):
            number = self.next
            self.next += 1
            try:
                self._producer.send_async(value_of(self._name, number), self._receipt_of(number))
            except pulsar.PulsarException:
                return

    def _receipt_of(self, number: int) -> Callable[[Any, pulsar.MessageId], None]:
        def receipt(result: Any, message_id: pulsar.MessageId) -> None:
            if result == pulsar.Result.Ok:
                self._receipts[number] = message_id

        return receipt

    def stop(self) -> None:
        """Send no more."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the thread; its client must be closed."""
        self._thread.join(60)
        assert not self._thread.is_alive(), f"producer {self._name} hangs"


class Acking(ABC):
    """One consumer on a raw connection that acknowledges with receipts, until its broker is gone."""

    kind = "Shared"

    def __init__(self, broker: Broker, promises: Promises, subscription: str, seed: int) -> None:
        self._raw: RawConnection = broker.raw()
        self.promises = promises
        self.subscription = subscription
        self.random = random.Random(seed)
        self.delivered: list[Frame] = []
        self._asked: dict[int, Callable[[], None]] = {}
        self._request_id = 1_000
        self._consumed = 0
        self._stop = threading.Event()
        subscribe(self._raw, promises.topic, subscription, self.kind)
        self._thread = threading.Thread(target=self._run, name=f"consumer-{subscription}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            frame = self._raw.next_frame(0.05)
            if frame is None:
                continue
            if frame.type == "CLOSED":
                return
            if frame.type == "MESSAGE":
                self.delivered.append(frame)
                self._consumed += 1
                self.take(frame)
            elif frame.type == "ACK_RESPONSE":
                self._asked.pop(frame["request_id"])()
            if self._consumed >= PERMITS // 2:
                self._raw.send("FLOW", consumer_id=1, messagePermits=self._consumed * 20)
                self._consumed = 0

    @abstractmethod
    def take(self, frame: Frame) -> None:
        """Check a delivery against the promises, and acknowledge what the load wants acknowledged."""

    def ack(self, kind: str, ids: list[dict[str, Any]], answered: Callable[[], None]) -> None:
        """Send an acknowledgement; `answered` runs when the broker has answered it."""
        self._request_id += 1
        self._asked[self._request_id] = answered
        self._raw.send("ACK", consumer_id=1, ack_type=kind, message_id=ids, request_id=self._request_id)

    def broke(self, text: str) -> None:
        """Note a broken promise."""
        self.promises.broken.append(f"{self.subscription}: {text}")

    def join(self) -> None:
        """Stop, and wait for the thread."""
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), f"consumer {self.subscription} hangs"
        self._raw.close()


class AckingSingly(Acking):
    """Acknowledges groups of entries individually, and never every seventh, so that holes pile up."""

    def __init__(self, broker: Broker, promises: Promises, subscription: str, seed: int) -> None:
        self._group: list[Place] = []
        self._acked = promises.acked.setdefault(subscription, set())
        self._asked_places = promises.asked.setdefault(subscription, set())
        super().__init__(broker, promises, subscription, seed)

    def take(self, frame: Frame) -> None:
        place = frame.position
        if place in self._acked:
            self.broke(f"{place} came again")
        if place[1] % 7 == 0:
            return
        self._group.append(place)
        if len(self._group) >= self.random.randrange(1, 60):
            group, self._group = self._group, []
            self._asked_places.update(group)
            self.ack("Individual", _ids(group), lambda: self._acked.update(group))


class AckingUpTo(Acking):
    """Acknowledges cumulatively, on an Exclusive subscription."""

    kind = "Exclusive"

    def __init__(self, broker: Broker, promises: Promises, subscription: str, seed: int) -> None:
        self._acked = promises.acked.setdefault(subscription, set())
        self._asked_places = promises.asked.setdefault(subscription, set())
        self._pending: list[Place] = []
        self._last: Place = (-1, -1)
        super().__init__(broker, promises, subscription, seed)

    def take(self, frame: Frame) -> None:
        place = frame.position
        if place in self._acked:
            self.broke(f"{place} came again")
        if place <= self._last:
            self.broke(f"{place} came after {self._last}")
        self._last = place
        self._pending.append(place)
        if self.random.random() < 0.05:
            pending, self._pending = self._pending, []
            self._asked_places.update(pending)
            self.ack("Cumulative", _ids(pending[-1:]), lambda: self._acked.update(pending))


class AckingIndexes(Acking):
    """Acknowledges some messages of each batch at a time."""

    def __init__(self, broker: Broker, promises: Promises, subscription: str, seed: int) -> None:
        self._acked = promises.acked_indexes.setdefault(subscription, {})
        self._asked_places = promises.asked.setdefault(subscription, set())
        super().__init__(broker, promises, subscription, seed)

    def take(self, frame: Frame) -> None:
        place = frame.position
        assert frame.metadata is not None
        size = frame.metadata.get("num_messages_in_batch", 1)
        whole = (1 << size) - 1
        words = frame.fields.get("ack_set", [])
        delivered = sum((word & (2**64 - 1)) << (64 * index) for index, word in enumerate(words)) if words else whole
        acked = self._acked.get(place, 0)
        if delivered & acked:
            self.broke(f"{place} came again with indexes {delivered & acked:b}, of {size}")
        chosen = self.random.getrandbits(size) & delivered
        if not chosen:
            return
        self._asked_places.add(place)
        # In an acknowledgement 1 means "not acknowledged"; batches here fit one word.
        left = whole & ~chosen
        ids = [_id(place, ack_set=[left] if left else [], batch_size=size)]
        self.ack("Individual", ids, lambda: self._acked.__setitem__(place, self._acked.get(place, 0) | chosen))


def _id(place: Place, **fields: Any) -> dict[str, Any]:
    return {"ledgerId": place[0], "entryId": place[1], **fields}


def _ids(places: list[Place]) -> list[dict[str, Any]]:
    return [_id(place) for place in places]


def subscribe(raw: RawConnection, topic: str, subscription: str, kind: str) -> None:
    """Consumer 1 on a subscription from the beginning, with permits."""
    raw.request("LOOKUP", topic=topic)
    fields = {"topic": topic, "subscription": subscription, "subType": kind, "initialPosition": "Earliest"}
    answer = raw.request("SUBSCRIBE", consumer_id=1, **fields)
    assert answer.type == "SUCCESS", answer
    raw.send("FLOW", consumer_id=1, messagePermits=PERMITS * 20)


@contextmanager
def quiet_client(broker: Broker) -> Iterator[pulsar.Client]:
    """An official client whose producers give up when it closes, broker or no broker."""
    client = pulsar.Client(broker.service_url, operation_timeout_seconds=60, logger=QUIET_CLIENT)
    try:
        yield client
    finally:
        with suppress(pulsar.NotConnected):  # it may only now notice that the broker is gone
            client.close()
