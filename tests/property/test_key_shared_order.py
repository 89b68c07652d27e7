"""Key_Shared under random joins, leaves, crashes, acks, negative acks and slow consumers: each key is at one consumer
at a time and in order, and nothing is ever stuck."""

from __future__ import annotations

import random
from typing import Any

import pytest

from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries.entry_bytes import parse_entry
from spark_pulsar.wire.protocol import requests
from tests.cases import cases
from tests.unit.broker.key_sharing import keyed, subscribe
from tests.unit.broker.world import TOPIC, Client, World

KEYS = 12
STEPS = 120
CONFIGS: dict[str, dict[str, Any]] = {
    "ring": {},
    "halves": {"key_shared_ring": False},
    "from disk": {"cache_bytes": 0, "max_read_entries": 7, "max_dispatch_bytes": 400},
    "limits": {"max_unacked_per_consumer": 6, "max_unacked_per_subscription": 15, "look_ahead_per_consumer": 10},
    "classic": {"key_shared_classic": True},
    "classic from disk": {
        "key_shared_classic": True,
        "cache_bytes": 0,
        "max_read_entries": 7,
        "max_unacked_per_consumer": 9,
    },
    "small ledgers": {"ledger_max_entries": 9, "ledger_min_age_ms": 0, "cache_bytes": 2_000},
}


class Walk:
    """One random history, and what must hold in it."""

    def __init__(self, seed: int, config: dict[str, Any], *, with_nacks: bool) -> None:
        self.random = random.Random(seed)
        self.world = World(**config)
        self.with_nacks = with_nacks
        self.producer = self.world.connect()
        self.producer.open_producer()
        self.clients: dict[Client, set[Position]] = {}
        """Consumers, and what each holds."""
        self.key_of: dict[Position, int] = {}
        self.acked: set[Position] = set()
        self.nacked: set[Position] = set()
        self.names = 0
        self.join()  # before anything is published: what no subscription wants is trimmed

    def run(self) -> None:
        steps = (
            [self.publish] * 5 + [self.ack] * 6 + [self.flow] * 4 + [self.join] * 2 + [self.leave] + [self.steal]
            + [self.nack] * (2 if self.with_nacks else 0)
        )  # fmt: skip
        for _ in range(STEPS):
            self.random.choice(steps)()
            self.look()
        self.finish()

    def publish(self) -> None:
        keys = [self.random.randrange(KEYS) for _ in range(self.random.randint(1, 15))]
        self.producer.publish(1, *(keyed(f"key-{key}", str(key)) for key in keys))
        for (_, position), key in zip(self.producer.receipts(), keys, strict=True):
            self.key_of[position] = key

    def join(self) -> None:
        if len(self.clients) < 5:
            client = self.world.connect()
            self.clients[client] = set()
            self.names += 1
            permits = self.random.choice((1, 5, 100))
            client.send(subscribe(f"c{self.names % 7}"), requests.flow(1, permits))

    def leave(self) -> None:
        if self.clients:
            client = self.random.choice(list(self.clients))
            del self.clients[client]
            if self.random.random() < 0.5:
                client.send(requests.close_consumer(9, 1))
            else:
                client.close()
            if not self.clients:
                self.nacked.clear()

    def flow(self) -> None:
        if self.clients:
            self.random.choice(list(self.clients)).send(requests.flow(1, self.random.choice((1, 3, 30))))

    def ack(self) -> None:
        if self.clients:
            client, held = self.random.choice(list(self.clients.items()))
            self._ack(client, self.random.sample(sorted(held), self.random.randint(0, len(held))))

    def steal(self) -> None:
        """Acks entries that another consumer holds, or none got (ACK-1)."""
        if self.clients and self.key_of:
            client = self.random.choice(list(self.clients))
            self._ack(client, [self.random.choice(list(self.key_of))])

    def _ack(self, client: Client, positions: list[Position]) -> None:
        if positions:
            self.acked.update(positions)
            for held in self.clients.values():
                held.difference_update(positions)
            client.ack(positions)

    def nack(self) -> None:
        if self.clients:
            client, held = self.random.choice(list(self.clients.items()))
            positions = self.random.sample(sorted(held), min(len(held), 2))
            if positions:
                held.difference_update(positions)
                self.nacked.update(positions)
                client.send(requests.redeliver(1, positions))

    def look(self) -> None:
        """Checks that every consumer got its entries in order; deliveries of one turn are judged together."""
        for client, held in self.clients.items():
            for effect in client.take_all():
                if isinstance(effect, fx.SendMessages):
                    self.see(effect, client, held)

    def see(self, effect: fx.SendMessages, client: Client, held: set[Position]) -> None:
        ids = effect.entry_ids or range(effect.first_entry_id, effect.first_entry_id + len(effect.starts))
        for entry_id, start, end in zip(ids, effect.starts, effect.ends, strict=True):
            place = Position(effect.ledger_id, entry_id)
            key = self.key_of[place]
            assert parse_entry(effect.buffer, start, end).payload == str(key).encode()
            assert place not in self.acked, f"{place} was acked"
            assert place not in held, f"{place} comes twice"
            for other, theirs in self.clients.items():
                if other is not client:
                    assert all(self.key_of[each] != key for each in theirs), f"key {key} is at two consumers (KS-1)"
            earlier = {each for each, its in self.key_of.items() if its == key and each < place}
            missing = earlier - self.acked - held - self.nacked
            assert not missing, f"{place} of key {key} comes before {sorted(missing)}"
            self.nacked.discard(place)
            held.add(place)

    def finish(self) -> None:
        """Lets all consumers receive and ack: nothing may be left."""
        if not self.clients:
            self.join()
        for client in self.clients:
            client.send(requests.flow(1, 10_000))
        self.look()
        for _ in range(3 * len(self.key_of)):
            if not any(self.clients.values()):
                break
            for client, held in self.clients.items():
                self._ack(client, sorted(held))
            self.look()
        assert self.acked == set(self.key_of), f"stuck: {sorted(set(self.key_of) - self.acked)}"
        assert self.world.core.topics[TOPIC].subscriptions["s"].backlog == 0


@cases("config", CONFIGS)
@cases("seed", range(6))
def test_random_histories(config: str, seed: int) -> None:
    # covers KS-1, KS-5, KS-10, KS-12, KS-14, SH-4, SH-10
    Walk(seed, CONFIGS[config], with_nacks=False).run()


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("seed", range(3))
def test_random_histories_with_negative_acks(config: str, seed: int) -> None:
    # covers KS-13, KS-14, NACK-3
    Walk(100 + seed, CONFIGS[config], with_nacks=True).run()
