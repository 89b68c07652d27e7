"""Random life with official clients: consumers with few permits pause, go, die and come back, the topic is unloaded.

In the end every subscription has got everything. `SOAK=60` makes it a minute, `SOAK_SEED=7` another history.
"""

from __future__ import annotations

import os
import random
import time
from dataclasses import dataclass, field

import pulsar
import pytest

from tests.brokers import Broker, topic_path

SOAK_S = float(os.environ.get("SOAK", "1"))
SEED = int(os.environ.get("SOAK_SEED", "1"))
STALLED_S = 60.0
"""Nothing has come for that long: then nothing will."""
KINDS = {
    "exclusive": pulsar.ConsumerType.Exclusive,
    "failover": pulsar.ConsumerType.Failover,
    "shared": pulsar.ConsumerType.Shared,
    "keys": pulsar.ConsumerType.KeyShared,
}


@dataclass
class Eater:
    """A consumer with a client of its own, and the messages it has not acknowledged yet."""

    client: pulsar.Client
    consumer: pulsar.Consumer
    held: list[pulsar.Message] = field(default_factory=list)


class Soak:
    """One topic, a subscription of each type, and what each of them got."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.topic = broker.topic()
        self.random = random.Random(SEED)
        self.eaters: dict[str, list[Eater]] = {name: [] for name in KINDS}
        self.seen: dict[str, set[bytes]] = {name: set() for name in KINDS}
        self.sent: list[bytes] = []
        self.failures: list[object] = []
        for name in KINDS:
            assert self.join(name)
        client = broker.client()
        self.producers = [
            client.create_producer(
                self.topic, batching_enabled=batching, block_if_queue_full=True, send_timeout_millis=0
            )
            for batching in (False, True)
        ]

    def join(self, name: str) -> bool:
        """A new consumer; false when the subscription takes none at the moment."""
        client = self.broker.client()
        try:
            consumer = client.subscribe(
                self.topic,
                name,
                KINDS[name],
                receiver_queue_size=self.random.choice([1, 2, 10, 1_000]),
                negative_ack_redelivery_delay_ms=100,
                initial_position=pulsar.InitialPosition.Earliest,
            )
        except pulsar.ConsumerBusy:  # nobody has noticed yet that the last one is dead
            client.close()
            return False
        self.eaters[name].append(Eater(client, consumer))
        return True

    def publish(self) -> None:
        producer = self.random.choice(self.producers)
        for _ in range(self.random.randint(1, 20)):
            data = str(len(self.sent)).encode()
            self.sent.append(data)
            producer.send_async(data, self._receipt, partition_key=f"key-{self.random.randrange(20)}")

    def _receipt(self, result: object, _id: object) -> None:
        if result != pulsar.Result.Ok:
            self.failures.append(result)

    def live(self, name: str) -> None:
        """Something happens to a subscription."""
        eaters = self.eaters[name]
        if not eaters or (name != "exclusive" and len(eaters) < 3 and self.random.random() < 0.1):
            self.join(name)
            return
        eater = self.random.choice(eaters)
        what = self.random.random()
        if what < 0.04:
            eaters.remove(eater)
            eater.client.shutdown()  # its messages and permits are lost, nobody says good-bye
        elif what < 0.08:
            eaters.remove(eater)
            eater.consumer.close()
        else:
            self.receive(name, eater, self.random.randint(1, 30))
            self.random.shuffle(eater.held)
            for _ in range(self.random.randint(0, len(eater.held))):
                message = eater.held.pop()
                if self.random.random() < 0.1:
                    eater.consumer.negative_acknowledge(message)
                else:
                    eater.consumer.acknowledge(message)

    def receive(self, name: str, eater: Eater, count: int) -> bool:
        """Up to so many messages; whether any came."""
        before = len(eater.held)
        for _ in range(count):
            try:
                message = eater.consumer.receive(timeout_millis=5)
            except pulsar.Timeout:
                break
            self.seen[name].add(message.data())
            eater.held.append(message)
        return len(eater.held) > before

    def backlog(self, name: str) -> int:
        return int(self.broker.rest("GET", f"{topic_path(self.topic)}/stats")[1]["subscriptions"][name]["msgBacklog"])

    def drain(self, name: str) -> None:
        """Everybody receives and acknowledges: what is missing comes."""
        progress = time.monotonic()
        while len(self.seen[name]) < len(self.sent) or self.backlog(name):
            if not self.eaters[name]:
                self.join(name)
            for eater in self.eaters[name]:
                if self.receive(name, eater, 1_000) or eater.held:
                    progress = time.monotonic()
                for message in eater.held:
                    eater.consumer.acknowledge(message)
                eater.held.clear()
            missing = sorted(set(self.sent) - self.seen[name], key=int)
            assert time.monotonic() < progress + STALLED_S, f"{name} stands still, seed {SEED}: {missing[:20]}"


@pytest.mark.ours_only("SH-10: Apache Pulsar's subscriptions stand still now and then")
def test_no_subscription_stands_still(broker: Broker) -> None:
    # covers SUB-4, SUB-10, FO-1, SH-4, SH-10, KS-10
    soak = Soak(broker)
    end = time.monotonic() + SOAK_S
    unload = time.monotonic() + SOAK_S / 2
    while time.monotonic() < end:
        soak.publish()
        for name in KINDS:
            soak.live(name)
        if time.monotonic() > unload:
            assert broker.rest("PUT", f"{topic_path(soak.topic)}/unload")[0] == 204
            unload = time.monotonic() + 5
    for producer in soak.producers:
        producer.flush()
    assert not soak.failures
    for name in KINDS:
        soak.drain(name)
