"""A load with everything that a data directory can hold, on a broker whose recording is cut later.

Nothing is checked here but that the broker serves: the account is taken from the recording.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import pulsar

from spark_pulsar.testing.process import BrokerProcess
from tests.brokers import Broker, topic_path
from tests.fault.crash_load import (
    Acking,
    AckingIndexes,
    AckingSingly,
    AckingUpTo,
    Promises,
    quiet_client,
    subscribe,
    value_of,
)
from tests.fault.transaction_account import Account, Visible
from tests.fault.transaction_load import Sources, Worker
from tests.raw import Frame, NoFrame, RawConnection

NAMESPACE: Final = "public/cuts"
CONF: Final = {
    "acknowledgmentAtBatchIndexLevelEnabled": True,
    "brokerDeduplicationEnabled": True,
    "managedLedgerMaxEntriesPerLedger": 150,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "managedLedgerCacheSizeMB": 1,
    "retentionCheckIntervalInSeconds": 1,
    "maxUnackedMessagesPerConsumer": 0,
    "maxUnackedMessagesPerSubscription": 0,
    "transactionCoordinatorEnabled": True,
    "activeConsumerFailoverDelayTimeMillis": 0,
}
_TRANSACTING: Final = 4
"""Clients with transactions."""
_BATCH = 10
_KEYS = 30
_HOUR_MS = 3_600_000
_ENDED = (pulsar.PulsarException, NoFrame, OSError, AssertionError, RuntimeError)
"""What a worker meets when its broker is gone."""


class _AckingKeys(AckingSingly):
    """Acknowledges groups of entries of a Key_Shared subscription individually."""

    kind = "Key_Shared"


class _AckingAll(Acking):
    """Acknowledges everything, so that ledgers are trimmed."""

    kind = "Exclusive"

    def take(self, frame: Frame) -> None:
        """Acknowledges every twentieth entry and all before it."""
        if frame.position[1] % 20 == 0:
            self.ack("Cumulative", [_id_of(frame)], lambda: None)


class Load:
    """Workers, each a thread that repeats one thing until its broker is gone."""

    def __init__(self, broker: Broker, process: BrokerProcess, seed: int, life: int = 1, inputs: int = 40) -> None:
        """`life` counts the loads that one data directory has had: producers and short topics are named after it.
        `inputs`: messages for transactions to consume."""
        self._broker = broker
        self._life = life
        self._process = process
        self._choices = random.Random(seed)
        self._stop = threading.Event()
        self.failures: list[BaseException] = []
        """Errors of workers before the end."""
        self._threads: list[threading.Thread] = []
        self._consumers: list[Acking] = []
        status, text = broker.rest("PUT", f"/admin/v2/namespaces/{NAMESPACE}")
        assert status in (204, 409), text
        for name in ("singles", "batches", "once", "later", "view", "sought", "large"):
            raw = self._broker.raw()
            subscribe(raw, _topic(name), "keep", "Shared")  # never acknowledged: it keeps every message
            raw.close()
        self._account = Account()
        self._sources = Sources(broker, self._account, _TRANSACTING)
        self._sources.publish(broker, inputs, inputs // 4)
        self._targets = [Visible(broker.topic("target")) for _ in range(3)]
        for target in self._targets:
            raw = self._broker.raw()
            subscribe(raw, target.topic, "keep", "Shared")
            raw.close()

    def run(self, enough: Callable[[], bool], timeout_s: float) -> None:
        """Runs until there is enough, then stops the broker in order: a cut may come at any time before, too."""
        self._consume()
        works = (
            self._trim, self._send_large, self._send_once, self._delay, self._compact, self._seek, self._topics,
            self._subscriptions, self._policies, self._schemas,
        )  # fmt: skip
        for work in works:
            self._start(work, random.Random(self._choices.random()))
        transacting = [
            Worker(
                self._broker, self._account, self._sources, self._targets, number,
                self._choices.randrange(1 << 32), self._life, ends_short_ones=False,
            )
            for number in range(_TRANSACTING)
        ]  # fmt: skip
        with quiet_client(self._broker) as client:
            self._start(lambda _: self._produce(client, "singles", "a"), self._choices)
            self._start(lambda _: self._produce(client, "singles", "b"), self._choices)
            self._start(lambda _: self._produce(client, "view", "v"), self._choices)
            self._start(lambda _: self._produce_batches(client), self._choices)
            deadline = time.monotonic() + timeout_s
            while not (enough() or self.failures) and time.monotonic() < deadline:
                self._stop.wait(0.01)
                self.failures += [each.failure for each in transacting if each.failure is not None]
            self._stop.set()
            for worker in transacting:
                worker.is_cut.set()
            self._process.stop()
        for thread in self._threads:
            thread.join(60)
        for worker in transacting:
            worker.join(60)
        for consumer in self._consumers:
            consumer.join()
        self._broker.close_since(0)
        assert not self.failures, self.failures

    def _start(self, work: Callable[[random.Random], Any], choices: random.Random) -> None:
        def run() -> None:
            try:
                work(choices)
            except BaseException as error:  # noqa: BLE001 - told by the main thread
                if not (self._stop.is_set() and isinstance(error, _ENDED)):
                    self.failures.append(error)

        thread = threading.Thread(target=run, name=str(work), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _rounds(self) -> Iterator[int]:
        """Counts until the end."""
        return itertools.takewhile(lambda _: not self._stop.is_set(), itertools.count())

    def _consume(self) -> None:
        singles, batches, trimmed = (Promises(_topic(name)) for name in ("singles", "batches", "trimmed"))
        self._consumers += [
            AckingSingly(self._broker, singles, "singly", 1),
            AckingUpTo(self._broker, singles, "up-to", 2),
            _AckingKeys(self._broker, singles, "keys", 3),
            _AckingKeys(self._broker, singles, "keys", 4),
            AckingIndexes(self._broker, batches, "indexes", 5),
            _AckingAll(self._broker, trimmed, "all", 6),
        ]

    # Workers

    def _produce(self, client: pulsar.Client, topic: str, name: str) -> None:
        name = self._named(name)
        producer = client.create_producer(_topic(topic), producer_name=name)
        for number in self._rounds():
            producer.send(value_of(name, number), partition_key=f"k{number % _KEYS}")

    def _produce_batches(self, client: pulsar.Client) -> None:
        name = self._named("c")
        producer = client.create_producer(
            _topic("batches"), producer_name=name, batching_enabled=True, batching_max_messages=_BATCH
        )
        for number in self._rounds():
            for each in range(number * _BATCH, (number + 1) * _BATCH):
                producer.send_async(value_of(name, each), lambda *_: None)
            producer.flush()

    def _named(self, name: str) -> str:
        return f"{name}{self._life}"

    def _sender(self, topic: str, name: str) -> tuple[RawConnection, Callable[..., None]]:
        name = self._named(name)
        raw = self._broker.raw()
        raw.request("LOOKUP", topic=_topic(topic))
        answer = raw.request("PRODUCER", topic=_topic(topic), producer_id=1, producer_name=name)
        assert answer.type == "PRODUCER_SUCCESS", answer

        def send(number: int, **metadata: Any) -> None:
            raw.send_message(1, number, value_of(name, number), metadata={"producer_name": name} | metadata)
            raw.expect("SEND_RECEIPT")

        return raw, send

    def _trim(self, choices: random.Random) -> None:
        _, send = self._sender("trimmed", "t")
        for number in self._rounds():
            send(number)

    def _send_large(self, choices: random.Random) -> None:
        """Entries that take a segment of their own, or a good part of one, and are settled past the page cache."""
        raw, _ = self._sender("large", "l")
        for number in self._rounds():
            size = choices.choice((100, 3_000, 40_000, 150_000, 300_000))
            raw.send_message(1, number, choices.randbytes(size), metadata={"producer_name": self._named("l")})
            raw.expect("SEND_RECEIPT")
            self._stop.wait(0.2)

    def _send_once(self, choices: random.Random) -> None:
        _, send = self._sender("once", "o")
        for number in self._rounds():
            send(number)
            if choices.random() < 0.2:
                send(choices.randint(max(0, number - 20), number))

    def _delay(self, choices: random.Random) -> None:
        self._consumers.append(AckingSingly(self._broker, Promises(_topic("later")), "due", 7))
        _, send = self._sender("later", "d")
        for number in self._rounds():
            now_ms = time.time_ns() // 1_000_000
            delay_ms = choices.choice((0, 200, _HOUR_MS, 2 * _HOUR_MS))
            send(number, **({"deliver_at_time": now_ms + delay_ms} if delay_ms else {}))

    def _compact(self, choices: random.Random) -> None:
        for number in self._rounds():
            self._stop.wait(0.1 + choices.random() / 5)
            status, text = self._broker.rest("PUT", f"{topic_path(_topic('view'))}/compaction")
            assert status in (204, 409), (number, status, text)

    def _seek(self, choices: random.Random) -> None:
        _, send = self._sender("sought", "s")
        raw, sent = self._broker.raw(), 0
        for _ in self._rounds():
            for _ in range(10):
                send(sent)
                sent += 1
            subscribe(raw, _topic("sought"), "seeks", "Exclusive")
            places = [frame.position for frame in raw.expect_messages(10)]
            for place in choices.sample(places, 5):
                raw.request("ACK", consumer_id=1, ack_type="Individual", message_id=[_id(place)])
            assert raw.request("SEEK", consumer_id=1, message_id=_id(choices.choice(places))).type == "SUCCESS"
            raw.close()
            raw = self._broker.raw()

    def _topics(self, choices: random.Random) -> None:
        for number in self._rounds():
            topic = _topic(f"short-{self._life}-{number}")
            status, text = self._broker.rest("PUT", topic_path(topic))
            assert status == 204, text
            raw, send = self._sender(f"short-{self._life}-{number}", "x")
            if choices.random() < 0.5:
                subscribe(raw, topic, "keep", "Shared")
            for each in range(choices.randrange(5)):
                send(each)
            raw.close()
            if choices.random() < 0.7:
                status, text = self._broker.rest("DELETE", f"{topic_path(topic)}?force=true")
                assert status == 204, text

    def _subscriptions(self, choices: random.Random) -> None:
        for number in self._rounds():
            raw = self._broker.raw()
            raw.request("LOOKUP", topic=_topic("once"))
            how = {"topic": _topic("once"), "subType": "Shared", "initialPosition": "Earliest"}
            raw.request("SUBSCRIBE", consumer_id=1, subscription=f"short-{number % 20}", **how)
            raw.send("FLOW", consumer_id=1, messagePermits=20)
            for frame in raw.expect_messages(1):
                raw.request("ACK", consumer_id=1, ack_type="Individual", message_id=[_id_of(frame)])
            if choices.random() < 0.9:
                assert raw.request("UNSUBSCRIBE", consumer_id=1).type == "SUCCESS"
            raw.close()

    def _policies(self, choices: random.Random) -> None:
        path = f"/admin/v2/namespaces/{NAMESPACE}"
        for number in self._rounds():
            number += self._life * 100_000
            calls = (
                (f"{path}/messageTTL", 1_000_000_000 + number),
                (f"{path}/maxConsumersPerTopic", 1_000 + number),
                (f"{topic_path(_topic('singles'))}/maxProducers", 1_000 + number),
                (f"{topic_path(_topic('once'))}/maxConsumers", 1_000 + number),
            )
            for call, value in calls:
                status, text = self._broker.rest("POST", call, value)
                assert status == 204, (call, status, text)

    def _schemas(self, choices: random.Random) -> None:
        fields: list[str] = []
        for number in self._rounds():
            fields.append(f'{{"name": "f{number}", "type": ["null", "string"], "default": null}}')
            definition = f'{{"type": "record", "name": "r", "fields": [{", ".join(fields)}]}}'.encode()
            topic = _topic(f"schemas-{self._life}-{number // 20}")
            raw = self._broker.raw()
            raw.request("LOOKUP", topic=topic)
            schema = {"name": "r", "schema_data": definition.hex(), "type": "Avro"}
            answer = raw.request("PRODUCER", topic=topic, producer_id=1, producer_name="p", schema=schema)
            assert answer.type == "PRODUCER_SUCCESS", answer
            raw.close()


def _topic(name: str) -> str:
    return f"persistent://{NAMESPACE}/{name}"


def _id(place: tuple[int, int]) -> dict[str, int]:
    return {"ledgerId": place[0], "entryId": place[1]}


def _id_of(frame: Frame) -> dict[str, int]:
    return _id(frame.position)
