"""Steps of a world: clients, faults of networks and disks, and time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from random import Random

from spark_pulsar.broker.entities.core import Core
from spark_pulsar.broker.schemas import registry
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies import policy_table
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, ProducerAccessMode

from .account import Sent
from .actors import Link, Producer
from .administration import Administrator, partition_names
from .profile import DAY_MS, Profile
from .rules import draw_policy
from .schemas import DEFINITIONS, name_of, on_wire
from .sending import new_entry
from .sharing import EXCLUSIVE, SHARED, draw_kinds
from .transacting import Transacting
from .transactions import TxnId
from .world import World

_ACCESS_MODES = (
    ProducerAccessMode.Shared,
    ProducerAccessMode.Exclusive,
    ProducerAccessMode.ExclusiveWithFencing,
    ProducerAccessMode.ExclusiveWithFencing,
    ProducerAccessMode.WaitForExclusive,
    ProducerAccessMode.WaitForExclusive,
)


_OF_THE_WORLD: dict[str, Callable[[World], object]] = {
    "go_on_compacting": lambda world: world.compact(),
    "fail_compacting": lambda world: world.compact(fail=True),
    "write": lambda world: world.write(),
    "settle": lambda world: world.settle(),
    "read": lambda world: world.serve_reads(),
    "fail_read": lambda world: world.serve_reads(fail=True),
    "fail_write": lambda world: world.store.fail_next_write(),
    "fill_up": lambda world: world.store.fill_up(),
    "heal_disk": lambda world: world.store.heal(),
    "die_soon": lambda world: world.store.die_soon(world.random),
    "crash": lambda world: world.crash(),
    "restart": lambda world: world.restart(),
}
"""Steps of the disk and of the process."""


class Steps(Transacting):
    """Everything that may happen in a seed's world, one method each; `profile.WEIGHTS` names them."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.world = World(profile)
        self.random = self.world.random
        self.topics = [f"persistent://public/default/t{number}" for number in range(profile.topics)]
        self.partitioned = "persistent://public/default/q" if "partitions" in profile.features else None
        if self.partitioned is not None:
            self.topics = [*self.topics[:1], *partition_names(self.partitioned)]
        self.administrator = Administrator(self.world, self.topics, self.partitioned)
        self.kinds = draw_kinds(
            profile, [self.random.choice((EXCLUSIVE, SHARED)) for _ in range(profile.subscriptions)]
        )
        for number in range(profile.producers):
            client = self.random.choice(self.world.clients)
            topic = self.random.choice(self.topics)
            first = self.random.choice((0, 100, 1 << 33))
            client.producers.append(Producer(client, number + 1, topic, f"p{number}", next_sequence_id=first))
        modes, keys = Random(f"modes for {profile.seed}"), Random(f"keys for {profile.seed}")
        for producer in [producer for client in self.world.clients for producer in client.producers]:
            if "access" in profile.features:
                producer.access_mode = modes.choice(_ACCESS_MODES)
            if "schemas" in profile.features:
                producer.schemas = DEFINITIONS
            if "encryption" in profile.features:
                producer.encrypted_share = keys.choice((0, 1, 1, 0.7))
        for client in self.world.clients:
            client.reuses_ids = "rates" in profile.features
        self._known = {}
        self.non_persistent_topics = ["non-persistent://public/default/n0"] if "live" in profile.features else []
        for number, topic in enumerate(self.non_persistent_topics * 2):
            client = self.random.choice(self.world.clients)
            client.producers.append(Producer(client, 100 + number, topic, f"n{number}"))
        self._names = list(profile.weights)
        self._actions = [self._action(name) for name in self._names]
        self._cumulated = list(accumulate(profile.weights.values()))

    def _action(self, name: str) -> Callable[[], object]:
        if name in _OF_THE_WORLD:
            return partial(_OF_THE_WORLD[name], self.world)
        action: Callable[[], object] = getattr(self, f"_{name}", None) or getattr(self.administrator, name)
        return action

    def _begin(self) -> None:
        """Connects all clients, and opens some producers and consumers: most histories begin in the middle of
        things."""
        world = self.world
        for _ in range(3 if "rates" in self.profile.features else 0):
            self._set_policy()
        for client in world.clients:
            world.connect(client)
        self._bustle()
        for client in world.clients:
            for producer in client.producers:
                client.open_producer(producer)
        for _ in range(self.random.randint(0, 3)):
            self._open_consumer()
        self._bustle()

    def _bustle(self) -> None:
        """Everything moves once."""
        world = self.world
        for link in list(world.links.values()):
            if link.client is not None:
                world.carry_up(link)
        world.write()
        world.serve_reads()
        for link in list(world.links.values()):
            world.carry_down(link)

    # Who acts

    def _link(self) -> Link | None:
        links = list(self.world.links.values())
        return self.random.choice(links) if links else None

    # Producers

    def _producer(self) -> Producer:
        return self.random.choice([producer for client in self.world.clients for producer in client.producers])

    def _open_producer(self) -> None:
        producer = self._producer()
        if producer.client.connected and producer.state == "closed":
            producer.client.open_producer(producer)

    def _close_producer(self) -> None:
        producer = self._producer()
        if producer.state == "open":
            producer.close()

    def _publish(self) -> None:
        self._publish_of(self._producer())

    def _publish_non_persistent(self) -> None:
        """A producer of a non-persistent topic; which is opened, if it must be."""
        everybody = [producer for client in self.world.clients for producer in client.producers]
        producer = self.random.choice([each for each in everybody if each.topic in self.non_persistent_topics])
        if producer.client.connected and producer.state == "closed":
            producer.client.open_producer(producer)
        else:
            self._publish_of(producer)

    def _publish_of(self, producer: Producer) -> None:
        if producer.state == "closed" and self.random.random() < 0.5:
            return
        count = self.random.randint(1, self.profile.run_length)
        sents = [self._entry(producer) for _ in range(count)]
        producer.waiting.extend(sents)
        if producer.state == "open":
            producer.send(sents)

    def _entry(self, producer: Producer, transaction: TxnId | None = None) -> Sent:
        sent = new_entry(self.profile, self.random, producer, self.world.now_ms, transaction)
        self.world.judge.sent[sent.entry] = sent
        if transaction is not None:
            self.world.judge.transactions.sent_in[sent.topic, sent.producer, sent.number] = transaction
        return sent

    # Policies and compaction

    def _set_policy(self) -> None:
        member, value = draw_policy(self.random, self.profile.features)
        plain = [name for name in self.topics if "-partition-" not in name]
        topic = self.random.choice(plain) if self.random.random() < 0.4 else None
        if member == policy_table.ENCRYPTION_REQUIRED:
            topic = None  # topics have no such policy of their own
        elif member == policy_table.PUBLISH_RATE and self.non_persistent_topics:
            topic = plain[0]  # what is published to a non-persistent one is answered at once
        self.world.set_policy(topic, member, value)

    # Schemas

    def _ask_schema(self) -> None:
        clients = self._connected()
        if clients:
            client, topic = self.random.choice(clients), self.random.choice(self.topics)
            command = BaseCommand(type=BaseCommand.GET_SCHEMA)
            command.getSchema.request_id, command.getSchema.topic = client.request_id(), topic
            if self.random.random() < 0.7:
                command.getSchema.schema_version = self.random.randrange(5).to_bytes(8, "big")
            client.tell(command)

    def _register_schema(self) -> None:
        clients = self._connected()
        if clients:
            client, topic = self.random.choice(clients), self.random.choice(self.topics)
            command = BaseCommand(type=BaseCommand.GET_OR_CREATE_SCHEMA)
            command.getOrCreateSchema.request_id, command.getOrCreateSchema.topic = client.request_id(), topic
            command.getOrCreateSchema.schema.CopyFrom(on_wire(self.random.choice(DEFINITIONS)))
            client.tell(command)

    def _delete_schemas(self) -> None:
        """A topic's schemas go, and their versions are not used again (SC-10)."""
        topic_name, judge = self.random.choice(self.topics), self.world.judge
        if judge.current.schemas.get(name_of(topic_name)):

            def request(core: Core) -> None:
                judge.schemas.deleting = {name_of(topic_name)}
                answer = self.administrator.answer(core, "delete schemas")
                registry.delete(core, TopicName.parse(topic_name))
                answer(None)

            self.administrator.ask("delete schemas", request, topic_name)

    # The network

    def _connect(self) -> None:
        without = [client for client in self.world.clients if client.link is None]
        if without:
            self.world.connect(self.random.choice(without))

    def _carry_up(self) -> None:
        patient = self.random.random() < 0.9  # what a client left behind may arrive long after
        links = [
            link for link in self.world.links.values() if (link.upstream if link.client is not None else not patient)
        ]
        if links:
            self.world.carry_up(self.random.choice(links))

    def _carry_down(self) -> None:
        links = [link for link in self.world.links.values() if link.downstream]
        if links:
            self.world.carry_down(self.random.choice(links), self.random.choice((1, 5, None)))

    def _cut(self) -> None:
        link = self._link()
        if link is not None:
            self.world.cut(link)

    def _go_silent(self) -> None:
        link = self._link()
        if link is not None and link.client is not None:
            link.client.leave()

    def _slow_socket(self) -> None:
        link = self._link()
        if link is not None:
            self.world.socket(link, writable=self.random.random() < 0.6)

    def _checkpoint(self) -> None:
        self.world.store.checkpoint_soon()
        self.world.turn([])

    # Time

    def _leave_alone(self) -> None:
        """Lets time pass until some subscriptions are idle for long enough, or nearly so."""
        minutes = self.profile.config.get("subscription_expiration_minutes", 1)
        self.world.advance(60_000 * minutes - self.random.choice((0, 0, 1, 30_000)))

    def _leave_topics_alone(self) -> None:
        """Lets time pass until topics without use may go, or nearly so."""
        config = self.world.core.config
        ms = self.random.choice((config.inactive_check_interval_ms, 1_000 * config.inactive_max_s, 30_000, 90_000))
        self.world.advance(max(0, ms + self.random.choice((0, 0, 1, -1))))

    def _visit(self) -> None:
        """After a while of nothing a producer comes, leaves something and goes again."""
        producer = self._producer()
        if producer.state == "closed" and self.random.random() < 0.7:
            self.administrator.delete_subscriptions(producer.topic)
        self._leave_topics_alone()
        if producer.client.connected and producer.state == "closed":
            producer.client.open_producer(producer)
            self._bustle()
            self._publish_of(producer)
            self._bustle()
            if producer.state == "open":
                producer.close()
            self._bustle()
        self.world.advance(self.random.choice((1, 1_000, 30_000, 59_000)))

    def _tick(self) -> None:
        deadline = self.world.broker.next_deadline()
        ms = self.random.choice((0, 1, 30, 150))
        if deadline is not None and self.random.random() < 0.3:
            ms = max(0, min(deadline - self.world.now_ms, 1_000))
        self.world.advance(ms)

    def _wait(self) -> None:
        """Until something is nearly due that is delayed, or just so."""
        times = [
            sent.deliver_at_ms for topic in self.world.judge.current.topics.values() for sent in topic.log.values()
        ]
        later = [time_ms for time_ms in times if time_ms > self.world.now_ms]
        if later:
            time_ms = self.random.choice((min(later), self.random.choice(later)))
            self.world.advance(time_ms - self.world.now_ms + self.random.choice((-1, 0, 0, 1)))

    def _jump(self) -> None:
        self.world.advance(self.random.choice((10_000, 61_000, 3_600_000, DAY_MS)))
