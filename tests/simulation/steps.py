"""What may happen in a world: what clients do, what networks and disks do to them, and time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from spark_pulsar.model.ids import MessageId, Position
from spark_pulsar.wire import requests
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe

from .account import Place, Sent
from .actors import EXCLUSIVE, SHARED, Client, Consumer, Link, Producer
from .administration import Administrator, partition_names
from .profile import DAY_MS, Profile
from .rules import draw_policy
from .sending import new_entry
from .world import World


class Steps:
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
        self.kinds = [self.random.choice((EXCLUSIVE, SHARED)) for _ in range(profile.subscriptions)]
        for number in range(profile.producers):
            client = self.random.choice(self.world.clients)
            topic = self.random.choice(self.topics)
            first = self.random.choice((0, 100, 1 << 33))
            client.producers.append(Producer(client, number + 1, topic, f"p{number}", next_sequence_id=first))
        self._known: dict[tuple[str, str], list[Place]] = {}
        self._readers = 0
        actions = {
            name: getattr(self, f"_{name}", None) or getattr(self.administrator, name) for name in profile.weights
        }
        self._actions: list[Callable[[], None]] = list(actions.values())
        self._names = list(actions)
        self._cumulated = list(accumulate(profile.weights.values()))

    def _begin(self) -> None:
        """Everybody connects, and some open what they have: most histories begin in the middle of things."""
        world = self.world
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

    def _connected(self) -> list[Client]:
        return [client for client in self.world.clients if client.connected]

    def _consumers(self) -> list[tuple[Client, Consumer]]:
        return [(client, consumer) for client in self.world.clients for consumer in client.consumers.values()]

    def _with_inbox(self) -> tuple[Client, Consumer] | None:
        found = [pair for pair in self._consumers() if pair[1].inbox]
        return self.random.choice(found) if found else None

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
            producer.state = "closed"
            producer.client.tell(requests.close_producer(producer.client.request_id(), producer.producer_id))

    def _publish(self) -> None:
        producer = self._producer()
        if producer.state == "closed" and self.random.random() < 0.5:
            return
        count = self.random.randint(1, self.profile.run_length)
        sents = [self._entry(producer) for _ in range(count)]
        producer.waiting.extend(sents)
        if producer.state == "open":
            producer.send(sents)

    def _entry(self, producer: Producer) -> Sent:
        sent = new_entry(self.profile, self.random, producer, self.world.now_ms)
        self.world.judge.sent[sent.entry] = sent
        return sent

    # Consumers

    def _open_consumer(self) -> None:
        clients = self._connected()
        if not clients:
            return
        index = self.random.randrange(len(self.kinds))
        kind = self.kinds[index] if self.random.random() < 0.95 else self.random.choice((EXCLUSIVE, SHARED))
        initial = CommandSubscribe.Earliest if self.random.random() < 0.8 else CommandSubscribe.Latest
        self.random.choice(clients).open_consumer(
            self.random.choice(self.topics),
            f"s{index}",
            kind,
            self.random.choice((1, 3, 10, 1_000)),
            initial_position=initial,
        )

    def _open_reader(self) -> None:
        clients = self._connected()
        if not clients:
            return
        self._readers += 1
        topic = self.random.choice(self.topics)
        start = MessageId(-1, -1)
        log = self._log(topic)
        if log and self.random.random() < 0.7:
            start = MessageId(*self.random.choice(log))
        self.random.choice(clients).open_consumer(
            topic,
            f"reader{self._readers}",
            EXCLUSIVE,
            self.random.choice((1, 5, 1_000)),
            durable=False,
            start=start,
            initial_position=CommandSubscribe.Earliest,
        )

    def _open_compacted_reader(self) -> None:
        clients = self._connected()
        if clients:
            self._readers += 1
            permits = self.random.choice((1, 5, 1_000))
            self.random.choice(clients).open_compacted_reader(
                self.random.choice(self.topics), f"compacted{self._readers}", permits
            )

    def _log(self, topic: str) -> list[Place]:
        known = self.world.judge.live.topics.get(topic)
        return [] if known is None else list(known.log)

    def _close_consumer(self) -> None:
        consumers = self._consumers()
        if consumers:
            client, consumer = self.random.choice(consumers)
            del client.consumers[consumer.consumer_id]
            client.tell(requests.close_consumer(client.request_id(), consumer.consumer_id))

    def _grant(self) -> None:
        consumers = [pair for pair in self._consumers() if pair[1].permits < 5]
        if consumers:
            client, consumer = self.random.choice(consumers)
            client.grant(consumer, self.random.choice((1, 2, 10)))

    def _receipt(self, client: Client) -> int | None:
        return client.request_id() if self.random.random() < self.profile.receipt_share else None

    def _ack(self) -> None:
        pair = self._with_inbox()
        if pair is None:
            return
        client, consumer = pair
        places = list(consumer.inbox)
        count = self.random.randint(1, min(len(places), 6))
        chosen = self.random.sample(places, count) if self.random.random() < 0.5 else places[:count]
        for place in chosen:
            del consumer.inbox[place]
        self._known.setdefault((consumer.topic, consumer.subscription), []).extend(chosen)
        if consumer.durable and self.random.random() < 0.1:  # once more, or what another one holds
            chosen = [*chosen, self.random.choice(self._known[consumer.topic, consumer.subscription])]
        client.tell(
            requests.ack(consumer.consumer_id, [Position(*place) for place in chosen], request_id=self._receipt(client))
        )

    def _ack_in_part(self) -> None:
        pair = self._with_inbox()
        if pair is None:
            return
        client, consumer = pair
        batches = [place for place, (count, _) in consumer.inbox.items() if count > 1]
        if not batches or not consumer.durable:
            return
        place = self.random.choice(batches)
        count, bits = consumer.inbox[place]
        left = self.random.getrandbits(count) & bits
        cumulative = consumer.kind == EXCLUSIVE and self.random.random() < 0.3
        if cumulative:
            left = ((1 << count) - 1) & ~((1 << self.random.randint(1, count - 1)) - 1)
        if not left or not (cumulative or self.world.core.config.batch_index_acks):
            return
        consumer.inbox[place] = (count, left & bits)
        if not cumulative and self.random.random() < 0.5:  # only what is new: the broker adds it to what it knows
            left |= ((1 << count) - 1) & ~bits
        client.tell(
            requests.ack(
                consumer.consumer_id,
                [Position(*place)],
                cumulative=cumulative,
                ack_set=left,
                request_id=self._receipt(client),
            )
        )

    def _ack_cumulatively(self) -> None:
        pair = self._with_inbox()
        if pair is None or pair[1].kind != EXCLUSIVE:
            return
        client, consumer = pair
        last = self.random.choice(list(consumer.inbox))
        for place in [place for place in consumer.inbox if place <= last]:
            del consumer.inbox[place]
        ack = requests.ack(consumer.consumer_id, [Position(*last)], cumulative=True, request_id=self._receipt(client))
        client.tell(ack)

    def _redeliver(self) -> None:
        pair = self._with_inbox()
        if pair is None:
            return
        client, consumer = pair
        places = list(consumer.inbox)
        chosen = self.random.sample(places, self.random.randint(0, min(3, len(places))))
        for place in chosen if chosen and consumer.kind == SHARED else places:
            del consumer.inbox[place]
        client.tell(requests.redeliver(consumer.consumer_id, [Position(*place) for place in chosen]))

    def _seek(self) -> None:
        consumers = self._consumers()
        if not consumers:
            return
        client, consumer = self.random.choice(consumers)
        log = self._log(consumer.topic)
        places: list[Place] = [(-1, -1), ((1 << 63) - 1, (1 << 63) - 1), (3, 1), *log]
        client.tell(
            requests.seek_to_id(client.request_id(), consumer.consumer_id, MessageId(*self.random.choice(places)))
        )

    def _seek_to_time(self) -> None:
        consumers = self._consumers()
        if not consumers:
            return
        client, consumer = self.random.choice(consumers)
        topic = self.world.judge.live.topics.get(consumer.topic)
        times = [self.world.now_ms, 0, *(sent.publish_ms for sent in topic.log.values() if topic)] if topic else [0]
        when = max(0, self.random.choice(times) + self.random.choice((0, 0, 1, -1)))
        client.tell(requests.seek_to_time(client.request_id(), consumer.consumer_id, when))

    def _unsubscribe(self) -> None:
        consumers = [pair for pair in self._consumers() if pair[1].durable]
        if consumers:
            client, consumer = self.random.choice(consumers)
            force = self.random.random() < 0.3
            client.tell(requests.unsubscribe(client.request_id(), consumer.consumer_id, force))

    def _ask_last_id(self) -> None:
        consumers = self._consumers()
        if consumers:
            client, consumer = self.random.choice(consumers)
            client.tell(requests.last_message_id(client.request_id(), consumer.consumer_id))

    def _set_policy(self) -> None:
        member, value = draw_policy(self.random)
        plain = [name for name in self.topics if "-partition-" not in name]
        topic = self.random.choice(plain) if self.random.random() < 0.4 else None
        self.world.set_policy(topic, member, value)

    def _go_on_compacting(self) -> None:
        self.world.compact()

    def _fail_compacting(self) -> None:
        self.world.compact(fail=True)

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

    # The disk

    def _write(self) -> None:
        self.world.write()

    def _settle(self) -> None:
        self.world.settle()

    def _read(self) -> None:
        self.world.serve_reads()

    def _fail_read(self) -> None:
        self.world.serve_reads(fail=True)

    def _checkpoint(self) -> None:
        self.world.store.checkpoint_soon()
        self.world.turn([])

    def _fail_write(self) -> None:
        self.world.store.fail_next_write()

    def _fill_up(self) -> None:
        self.world.store.fill_up()

    def _heal_disk(self) -> None:
        self.world.store.heal()

    def _die_soon(self) -> None:
        self.world.store.die_soon(self.random)

    def _crash(self) -> None:
        self.world.crash()

    def _restart(self) -> None:
        self.world.restart()

    # Time

    def _leave_alone(self) -> None:
        """So much time passes that some subscriptions are idle for long enough, or nearly so."""
        minutes = self.profile.config.get("subscription_expiration_minutes", 1)
        self.world.advance(60_000 * minutes - self.random.choice((0, 0, 1, 30_000)))

    def _tick(self) -> None:
        deadline = self.world.broker.next_deadline()
        ms = self.random.choice((0, 1, 30, 150))
        if deadline is not None and self.random.random() < 0.3:
            ms = max(0, min(deadline - self.world.now_ms, 1_000))
        self.world.advance(ms)

    def _jump(self) -> None:
        self.world.advance(self.random.choice((10_000, 61_000, 3_600_000, DAY_MS)))
