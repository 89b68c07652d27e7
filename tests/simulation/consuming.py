"""Steps of consumers and readers: they come and go, give permits, ack, ask for redelivery, seek."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe

from .account import Place
from .sharing import ALL_STICKY_HASHES, DEALT_OUT, EXCLUSIVE, IN_ORDER, SHARED, Kind, draw_sticky_hashes

if TYPE_CHECKING:
    from random import Random

    from .actors import Client, Consumer
    from .administration import Administrator
    from .profile import Profile
    from .world import World


class Consuming:
    """Steps of consumers, one method each."""

    profile: Profile
    world: World
    random: Random
    administrator: Administrator
    topics: list[str]
    non_persistent_topics: list[str]
    kinds: list[Kind]
    _known: dict[tuple[str, str], list[Place]]
    """Entries ever acknowledged, by subscription."""
    _readers = 0

    def _connected(self) -> list[Client]:
        return [client for client in self.world.clients if client.connected]

    def _consumers(self) -> list[tuple[Client, Consumer]]:
        return [(client, consumer) for client in self.world.clients for consumer in client.consumers.values()]

    def _with_inbox(self) -> tuple[Client, Consumer] | None:
        found = [pair for pair in self._consumers() if pair[1].inbox]
        return self.random.choice(found) if found else None

    def _open_consumer(self) -> None:
        self._open_consumer_of(self.topics)

    def _open_non_persistent_consumer(self) -> None:
        self._open_consumer_of(self.non_persistent_topics)

    def _join(self) -> None:
        """One more consumer of a subscription that has some."""
        consumers = [consumer for _, consumer in self._consumers() if consumer.durable]
        if consumers:
            other = self.random.choice(consumers)
            self._open_consumer_of([other.topic], int(other.subscription[1:]))

    def _open_consumer_of(self, topics: list[str], number: int | None = None) -> None:
        clients = self._connected()
        if not clients:
            return
        index = self.random.randrange(len(self.kinds)) if number is None else number
        kind = self.kinds[index]
        if self.random.random() >= 0.95:
            kind = Kind(self.random.choice((EXCLUSIVE, SHARED)))
        initial = CommandSubscribe.Earliest if self.random.random() < 0.8 else CommandSubscribe.Latest
        sticky_hashes, priority = ALL_STICKY_HASHES, 0
        if "types" in self.profile.features:
            sticky_hashes, priority = draw_sticky_hashes(self.random), self.random.choice((0, 0, 0, 1))
        self.random.choice(clients).open_consumer(
            self.random.choice(topics),
            f"s{index}",
            kind,
            self.random.choice((1, 3, 10, 1_000)),
            sticky_hashes=sticky_hashes,
            priority=priority,
            initial_position=initial,
        )

    def _serve_everybody(self) -> None:
        """Every consumer acks what it has, or most of it, and gives permits."""
        for client, consumer in self._consumers():
            client.grant(consumer, self.random.choice((5, 1_000)))
            places = [place for place in consumer.inbox if self.random.random() < 0.9]
            for place in places:
                del consumer.inbox[place]
            if places:
                client.tell(requests.ack(consumer.consumer_id, [Position(*place) for place in places]))

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
            Kind(EXCLUSIVE),
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
        known = self.world.judge.current.topics.get(topic)
        return [] if known is None else list(known.log)

    def _close_consumer(self) -> None:
        consumers = self._consumers()
        if consumers:
            client, consumer = self.random.choice(consumers)
            del client.consumers[consumer.consumer_id]
            client.tell(requests.close_consumer(client.request_id(), consumer.consumer_id))

    def _abandon(self) -> None:
        """Closes all clients of a topic, and ends some subscriptions, or all."""
        topic = self.random.choice(self.topics)
        for client, consumer in [pair for pair in self._consumers() if pair[1].topic == topic]:
            request_id = client.request_id()
            if consumer.durable and self.random.random() < 0.6:
                client.tell(requests.unsubscribe(request_id, consumer.consumer_id, force=True))
            else:
                del client.consumers[consumer.consumer_id]
                client.tell(requests.close_consumer(request_id, consumer.consumer_id))
        for client in self.world.clients:
            for producer in client.producers:
                if producer.topic == topic and producer.state == "open":
                    producer.close()
        if self.random.random() < 0.5:
            self.administrator.delete_subscriptions(topic)

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
        cumulative = consumer.kind in IN_ORDER and self.random.random() < 0.3
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
        if pair is None or pair[1].kind not in IN_ORDER:
            return
        client, consumer = pair
        last = self.random.choice(list(consumer.inbox))
        for place in [place for place in consumer.inbox if place <= last]:
            del consumer.inbox[place]
        ack = requests.ack(consumer.consumer_id, [Position(*last)], cumulative=True, request_id=self._receipt(client))
        client.tell(ack)

    def _redeliver(self) -> None:
        pair = self._with_inbox()
        if "types" in self.profile.features and self.random.random() < 0.5:  # also of somebody who has nothing
            consumers = self._consumers()
            pair = self.random.choice(consumers) if consumers else None
        if pair is None:
            return
        client, consumer = pair
        places = list(consumer.inbox)
        chosen = self.random.sample(places, self.random.randint(0, min(3, len(places))))
        for place in chosen if chosen and consumer.kind in DEALT_OUT else places:
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
        topic = self.world.judge.current.topics.get(consumer.topic)
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
