"""Short-lived Java clients on several threads, with a watch that notices when one stands still.

    python -m tests.clients.short_lived [--minutes 10] [--threads 4] [--seed 1] [--broker apache-pulsar]

Each session builds a client of its own, a producer and consumers of one type or a reader, on a plain or a partitioned
topic, sends, receives, acknowledges in one way or another, and closes all of it, or only the client. An operation that
takes longer than 10 seconds is told with the stacks of all Java threads and with what the broker says of the topic, and
again when it came to an end after all.

It needs Maven, as all of `make test-clients` does, and is no test: how long a session takes is up to the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from spark_pulsar.testing.process import BrokerProcess
from tests.apache_pulsar.start import apache_pulsar
from tests.brokers import Broker, Kind, topic_path
from tests.clients.java_client import RECEIVE_TIMEOUT_S, Java, JavaClient

STALL_S: Final = 10.0
_LOOK_S: Final = 1.0
MESSAGES: Final = 5
TYPES: Final = ("Exclusive", "Shared", "Failover", "Key_Shared", "reader", "pattern")
ACKS: Final = ("single", "cumulative", "receipt", "negative", "none")
_END_TIMEOUT_S: Final = 120.0


@dataclass(slots=True)
class Operation:
    """One call of a session that is under way."""

    session: int
    name: str
    topic: str
    began_s: float
    is_told: bool = False


class Stress:
    """Sessions on one broker, one after the other on each thread."""

    def __init__(self, broker: Broker, java: Java, seed: int) -> None:
        self.broker = broker
        self.java = java
        self.over = threading.Event()
        """No further session is to begin."""
        self.ended = threading.Event()
        """All sessions have come to their end, or never will."""
        self.sessions = itertools.count(1)
        self.done = 0
        self.longest: Counter[str] = Counter()
        """Longest time of each operation in ms."""
        self.stalls: list[str] = []
        self.failures: list[str] = []
        self._seed = seed
        self._under_way: dict[int, Operation] = {}

    def work(self) -> None:
        """Plays one session after the other."""
        while not self.over.is_set():
            number = next(self.sessions)
            try:
                self._session(number, random.Random(f"{self._seed}/{number}"))
                self.done += 1
            except Exception:  # noqa: BLE001 - told at the end
                self.failures.append(f"session {number}: {traceback.format_exc()[-3_000:]}")
                self.over.set()

    @contextlib.contextmanager
    def _at(self, session: int, name: str, topic: str) -> Iterator[None]:
        """Notes an operation for as long as it takes."""
        operation = Operation(session, name, topic, time.monotonic())
        self._under_way[threading.get_ident()] = operation
        try:
            yield
        finally:
            del self._under_way[threading.get_ident()]
            took_s = time.monotonic() - operation.began_s
            self.longest[name] = max(self.longest[name], round(took_s * 1000))
            if operation.is_told:
                self.stalls.append(f"session {session}: {name} took {took_s:.1f} s")
                print(f"{self.stalls[-1]}", flush=True)

    def _session(self, number: int, choices: random.Random) -> None:
        kind, partitions = choices.choice(TYPES), choices.choice((0, 0, 3))
        topic = f"persistent://public/default/short-{self._seed}-{number}"
        if partitions:
            with self._at(number, "create partitions", topic):
                status, answer = self.broker.rest("PUT", f"{topic_path(topic)}/partitions", partitions)
                assert status == 204, answer
        with self._at(number, "build client", topic):
            client = self.java.client(self.broker.service_url)
        opened: list[Any] = []
        with self._at(number, "create producer", topic):
            batches = choices.random() < 0.5
            producer = client.client.newProducer(self.java.api.Schema.STRING).topic(topic).enableBatching(batches)
            producer = producer.create()
            opened.append(producer)
        if choices.random() < 0.5:
            self._send(number, producer, topic, choices)
            self._receive(number, client, topic, kind, choices, opened)
        else:
            with self._at(number, f"subscribe {kind}", topic):
                opened.append(self._consumer(client, topic, kind, choices))
            self._send(number, producer, topic, choices)
            self._receive(number, client, topic, kind, choices, opened)
        if choices.random() < 0.7:
            choices.shuffle(opened)
            for each in opened:
                with self._at(number, "close a producer or consumer", topic):
                    each.close()
        with self._at(number, "close client", topic):
            client.client.close()

    def _send(self, number: int, producer: Any, topic: str, choices: random.Random) -> None:
        is_async = choices.random() < 0.5
        with self._at(number, "send", topic):
            sent = []
            for index in range(MESSAGES):
                message = producer.newMessage().key(f"k{index}").value(f"v{index}")
                sent.append(message.sendAsync() if is_async else message.send())
            if is_async:
                for each in sent:
                    each.get()
        with self._at(number, "flush", topic):
            producer.flush()

    def _consumer(self, client: JavaClient, topic: str, kind: str, choices: random.Random) -> Any:
        api = self.java.api
        builder = client.client.newConsumer(api.Schema.STRING).subscriptionName(f"s{choices.randrange(10**9)}")
        builder = builder.subscriptionInitialPosition(api.SubscriptionInitialPosition.Earliest)
        if kind == "pattern":
            builder = builder.topicsPattern(f"{topic}.*")
        else:
            builder = builder.topic(self.java.texts(topic))
            builder = builder.subscriptionType(getattr(api.SubscriptionType, kind if kind != "reader" else "Shared"))
        unit = self.java.jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        builder = builder.negativeAckRedeliveryDelay(100, unit).isAckReceiptEnabled(choices.random() < 0.5)
        return builder.subscribe()

    def _receive(
        self, number: int, client: JavaClient, topic: str, kind: str, choices: random.Random, opened: list[Any]
    ) -> None:
        if kind == "reader":
            self._read(number, client, topic, opened)
            return
        with self._at(number, f"subscribe {kind}", topic):
            consumer = self._consumer(client, topic, kind, choices)
            opened.append(consumer)
        way = choices.choice(ACKS)
        values = []
        for index in range(MESSAGES):
            with self._at(number, f"receive {kind}", topic):
                message = client.receive(consumer)
            if way == "negative" and index == 0:
                with self._at(number, f"receive {kind} once more", topic):
                    consumer.negativeAcknowledge(message)
            values.append(message.getValue())
            if way in ("single", "receipt"):
                with self._at(number, f"ack, {way}", topic):
                    consumer.acknowledge(message)
        if way == "cumulative" and kind in ("Exclusive", "Failover"):
            with self._at(number, "ack, cumulative", topic):
                consumer.acknowledgeCumulative(message)
        if choices.random() < 0.3:
            with self._at(number, "last message ids", topic):
                consumer.getLastMessageIds()
        if choices.random() < 0.3:
            with self._at(number, "unsubscribe", topic):
                consumer.unsubscribe()

    def _read(self, number: int, client: JavaClient, topic: str, opened: list[Any]) -> None:
        api = self.java.api
        with self._at(number, "create reader", topic):
            builder = client.client.newReader(api.Schema.STRING).topic(topic).startMessageId(api.MessageId.earliest)
            reader = builder.create()
            opened.append(reader)
        found = 0
        while found < MESSAGES:
            with self._at(number, "has message available", topic):
                assert reader.hasMessageAvailable(), f"{found} of {MESSAGES} messages"
            with self._at(number, "read next", topic):
                unit = self.java.jvm.java.util.concurrent.TimeUnit.SECONDS
                assert reader.readNext(RECEIVE_TIMEOUT_S, unit) is not None, "no message came"
            found += 1

    # The watch

    def watch(self) -> None:
        """Tells each operation that takes too long, once."""
        while not self.ended.wait(_LOOK_S):
            for operation in list(self._under_way.values()):
                if not operation.is_told and time.monotonic() - operation.began_s > STALL_S:
                    operation.is_told = True
                    self._tell(operation)

    def _tell(self, operation: Operation) -> None:
        print(f"\nsession {operation.session} stands still: {operation.name}, {operation.topic}")
        others = [f"{each.session}: {each.name}" for each in self._under_way.values()]
        print(f"under way: {', '.join(others)}")
        for path in (topic_path(operation.topic) + "/stats", topic_path(operation.topic) + "/partitioned-stats"):
            print(f"{path}: {json.dumps(self.broker.rest('GET', path))[:3_000]}")
        print(self._stacks(), flush=True)

    def _stacks(self) -> str:
        found = []
        stacks = self.java.jvm.java.lang.Thread.getAllStackTraces()
        for entry in list(stacks.entrySet()):
            thread, frames = entry.getKey(), [str(frame) for frame in list(entry.getValue())[:25]]
            if frames:
                found.append(f'"{thread.getName()}" {thread.getState()}\n  ' + "\n  ".join(frames))
        return "\n".join(found)


def run(stress: Stress, minutes: float, threads: int) -> int:
    """Runs the sessions and prints the longest time of each operation; 1 when one stood still or failed."""
    workers = [threading.Thread(target=stress.work, daemon=True) for _ in range(threads)]
    watch = threading.Thread(target=stress.watch, daemon=True)
    for thread in (*workers, watch):
        thread.start()
    stress.over.wait(minutes * 60)
    stress.over.set()
    deadline = time.monotonic() + _END_TIMEOUT_S
    for thread in workers:
        thread.join(max(0.0, deadline - time.monotonic()))
    stress.ended.set()
    stuck = [f"{each.session}: {each.name}" for each in stress._under_way.values()]
    print(f"{stress.done} sessions; longest, in ms: {dict(stress.longest.most_common())}")
    for text in (*stress.failures, *stress.stalls, *(f"never ended: {each}" for each in stuck)):
        print(text)
    return int(bool(stress.failures or stress.stalls or stuck))


def main() -> int:
    """Reads the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", choices=("ours", "apache-pulsar"), default="ours")
    options = parser.parse_args()
    kind: Kind = options.broker
    java = Java()
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        process: Any = BrokerProcess(data) if kind == "ours" else apache_pulsar(data)
        if kind == "ours":
            process.start()
        try:
            stress = Stress(Broker(kind, process.service_url, process.admin_url, process), java, options.seed)
            status = run(stress, options.minutes, options.threads)
        finally:
            process.close() if kind == "ours" else process.stop()
    java.close()
    return status


if __name__ == "__main__":
    sys.exit(main())
