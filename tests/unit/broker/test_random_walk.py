"""Many clients doing anything at any time, on a disk that is slow, fails reads and loses power.

Goal: whatever happens, the invariants hold after every turn, every receipted entry is there, every acknowledged one
stays away, and everything else comes again. Method: seeded random scenes against a model that knows, per subscription,
which entries were acked.
"""

import random

from spark_pulsar.broker.dispatch.redelivery import RedeliveringDispatcher
from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.broker.turn.events import WritingPaused, WritingResumed
from spark_pulsar.model.positions.ids import EARLIEST, EARLIEST_ID, Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe
from tests.cases import cases
from tests.unit.broker.world import KEPT, TOPIC, Client, World, entry, positions_of

CONFIG = {
    "ledger_max_entries": 7,
    "ledger_min_age_ms": -1,
    "max_unacked_per_consumer": 6,
    "max_unacked_per_subscription": 15,
    "round_robin_batch": 3,
    "max_read_entries": 3,
    "max_dispatch_bytes": 200,
    "max_pending_publishes_per_session": 5,
}
STEPS = 120
SUBSCRIPTIONS = {"exclusive": CommandSubscribe.Exclusive, "shared": CommandSubscribe.Shared}


class Scene:
    """A world, its clients, and what must be true of it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.config = {**CONFIG, "cache_bytes": self.random.choice([0, 2_000, 1 << 20])}
        self.keeps_all = self.random.random() < 0.3
        if self.keeps_all:
            self.config |= KEPT
        self.world = World(**self.config)
        self.clients: list[Client] = []
        self.stored: set[Position] = set()
        """Receipted entries."""
        self.held: set[Position] = set()
        """Entries that were stored while both subscriptions were there: nothing but their acks releases them."""
        self.acked: dict[str, set[Position]] = {name: set() for name in SUBSCRIPTIONS}
        """Entries whose ack got its receipt."""
        self.asked: dict[str, set[Position]] = {name: set() for name in SUBSCRIPTIONS}
        """Entries that were acked, with a receipt or not."""
        self.waiting: dict[tuple[int, int], tuple[str, list[Position]]] = {}
        self.sequence = 0

    def client(self) -> Client:
        if not self.clients or (len(self.clients) < 4 and self.random.random() < 0.2):
            self.clients.append(self.world.connect())
        return self.random.choice(self.clients)

    def has_both_subscriptions(self) -> bool:
        topic = self.world.state.topics_by_name.get(TOPIC)
        return topic is not None and len(topic.cursors) == len(SUBSCRIPTIONS)

    # What may happen

    def publish(self) -> None:
        client = self.client()
        if not self.world.core.sessions[client.session_id].producers:
            client.send(requests.producer(client.request_id(), TOPIC, 1))
        count = self.random.randint(1, 4)
        client.publish(1, *(entry(str(self.sequence + index)) for index in range(count)), first=self.sequence)
        self.sequence += count

    def subscribe(self) -> None:
        client = self.client()
        name = self.random.choice(list(SUBSCRIPTIONS))
        consumer_id = list(SUBSCRIPTIONS).index(name) + 1
        client.send(
            requests.subscribe(
                client.request_id(),
                TOPIC,
                name,
                consumer_id,
                SUBSCRIPTIONS[name],
                initial_position=CommandSubscribe.Earliest,
            ),
            requests.flow(consumer_id, self.random.randint(1, 12)),
        )

    def flow(self) -> None:
        self.client().send(requests.flow(self.random.randint(1, 2), self.random.randint(1, 12)))

    def ack(self) -> None:
        client = self.client()
        name = self.random.choice(list(SUBSCRIPTIONS))
        consumer_id = list(SUBSCRIPTIONS).index(name) + 1
        if not self.stored or consumer_id not in self.world.core.sessions[client.session_id].consumers:
            return
        chosen = self.random.sample(sorted(self.stored), min(len(self.stored), self.random.randint(1, 4)))
        request_id = client.request_id() if self.random.random() < 0.7 else None
        if name == "exclusive" and self.random.random() < 0.3:
            upto = chosen[0]
            chosen = [each for each in self.stored if each <= upto]
            ack = requests.ack(consumer_id, [upto], cumulative=True, request_id=request_id)
        else:
            ack = requests.ack(consumer_id, chosen, request_id=request_id)
        if request_id is not None:
            self.waiting[client.session_id, request_id] = (name, chosen)
        self.asked[name].update(chosen)
        client.send(ack)

    def skip(self) -> None:
        """Entries are consumed by an order of the admin API."""
        topic = self.world.core.topics.get(TOPIC)
        name = self.random.choice(list(SUBSCRIPTIONS))
        subscription = None if topic is None else topic.subscriptions.get(name)
        if topic is None or subscription is None:
            return
        entries = self.random.choice([1, 3, 5])
        ranges = subscription.cursor.unacked(EARLIEST, topic.last_add_confirmed, entries)
        skipped = {Position(ledger_id, entry_id) for ledger_id, first, end in ranges for entry_id in range(first, end)}
        self.asked[name] |= skipped

        def order(core: Core) -> None:
            cursor_moves.skip(core, subscription, entries)
            core.when_durable(lambda: self.acked[name].update(skipped))

        self.world.ask(order)

    def redeliver(self) -> None:
        chosen = self.random.sample(sorted(self.stored), min(len(self.stored), self.random.randint(0, 3)))
        self.client().send(requests.redeliver(self.random.randint(1, 2), chosen))

    def close(self) -> None:
        client = self.client()
        consumer_id = self.random.randint(1, 2)
        client.send(requests.close_consumer(client.request_id(), consumer_id))

    def drop(self) -> None:
        client = self.client()
        self.clients.remove(client)
        client.close()

    def slow_socket(self) -> None:
        session_id = self.client().session_id
        kind = WritingPaused if self.random.random() < 0.4 else WritingResumed
        self.world.happen([kind(session_id)])

    def slow_disk(self) -> None:
        self.world.disk_is_slow = not self.world.disk_is_slow
        self.world.happen([])

    def fail_reads(self) -> None:
        self.world.serve_reads(fail=True)

    def let_time_pass(self) -> None:
        self.world.advance(self.random.choice([1, 100, 1_000]))

    def crash(self) -> None:
        self.listen()
        self.clients.clear()
        self.waiting.clear()
        self.world = self.world.restart(**self.config)
        if not self.has_both_subscriptions():
            self.held.clear()

    # What came back

    def listen(self) -> None:
        """Takes note of what was promised."""
        for client in self.clients:
            for effect in client.take_all():
                if isinstance(effect, fx.SendReceipts):
                    count = len(effect.sequence_ids)
                    stored = {Position(effect.ledger_id, effect.first_entry_id + index) for index in range(count)}
                    self.stored |= stored
                    if self.has_both_subscriptions():
                        ledger = self.world.state.topics_by_name[TOPIC].ledger
                        self.held |= {each for each in stored if ledger.contains(each)}
                elif isinstance(effect, fx.SendMessages):
                    for position in positions_of([effect]):
                        assert position <= self.world.core.topics[TOPIC].last_add_confirmed, (
                            "sent before it was on disk (ML-5)"
                        )
                elif isinstance(effect, fx.SendCommand) and effect.command.type == BaseCommand.ACK_RESPONSE:
                    name, positions = self.waiting.pop((client.session_id, effect.command.ackResponse.request_id))
                    self.acked[name].update(positions)

    def step(self) -> None:
        happenings = {
            self.publish: 8,
            self.subscribe: 5,
            self.flow: 5,
            self.ack: 8,
            self.redeliver: 3,
            self.skip: 1,
            self.close: 1,
            self.drop: 1,
            self.slow_socket: 2,
            self.slow_disk: 2,
            self.fail_reads: 1,
            self.let_time_pass: 2,
            self.crash: 0.5,
        }
        self.random.choices(list(happenings), list(happenings.values()))[0]()
        self.listen()
        for client in [each for each in self.clients if each.session_id not in self.world.core.sessions]:
            self.clients.remove(client)

    def drained(self, name: str) -> list[Position]:
        """Lists the messages of a consumer that comes when all others are gone, and acks everything."""
        client = self.world.connect()
        client.send(
            requests.subscribe(1, TOPIC, name, 1, SUBSCRIPTIONS[name], initial_position=CommandSubscribe.Earliest),
            requests.flow(1, 1 << 20),
        )
        client.expect(BaseCommand.SUCCESS)
        got: list[Position] = []
        while True:
            positions = positions_of(client.deliveries())
            if not positions:
                return got
            got += positions
            client.ack(positions)


def check_that_nothing_is_stuck(world: World) -> None:
    """A consumer that can receive has got everything there is for it (SH-10)."""
    topic = world.core.topics.get(TOPIC)
    for subscription in [] if topic is None else topic.subscriptions.values():
        dispatcher = subscription.dispatcher
        if not any(consumer.can_receive for consumer in subscription.consumers):
            continue
        if isinstance(dispatcher, RedeliveringDispatcher):
            assert not dispatcher.replay
            held = sum(consumer.unacked for consumer in subscription.consumers)
            if held >= CONFIG["max_unacked_per_subscription"] // 2:
                continue
        assert not subscription.cursor.unacked(dispatcher.position, topic.last_add_confirmed, 1)


@cases("seed", range(60))
def test_nothing_receipted_is_lost_and_nothing_acked_comes_back(seed: int) -> None:
    # covers PR-9, ML-5, ACK-4, SH-4, EX-4, DUR-3
    scene = Scene(seed)
    for _ in range(STEPS):
        scene.step()
    scene.world.disk_is_slow = False
    scene.world.advance(2_000)
    scene.listen()
    check_that_nothing_is_stuck(scene.world)
    scene.clients.clear()
    scene.world = scene.world.restart(**scene.config)
    if not scene.stored:
        return
    ledger = scene.world.state.topics_by_name[TOPIC].ledger
    for name in SUBSCRIPTIONS:
        got = scene.drained(name)
        assert len(got) == len(set(got)), "delivered twice without a reason"
        assert not set(got) & scene.acked[name], "acked, yet delivered again"
        gone = {each for each in scene.stored if not ledger.contains(each)}
        missing = scene.stored - set(got) - scene.asked[name]
        assert missing <= gone, "receipted and never acked, yet not delivered"
        assert not missing & scene.held, "trimmed although a subscription needs it (TRIM-1)"
        assert not (gone and scene.keeps_all), "trimmed although retention keeps it (RET-1)"


def test_walk_visits_what_it_is_about() -> None:
    """The scenes are worth something only if entries are stored, acked, redelivered and read from storage."""
    scene = Scene(1)
    for _ in range(STEPS):
        scene.step()
    assert scene.stored
    assert scene.world.core.now_ms
    assert min(scene.stored) > EARLIEST_ID
