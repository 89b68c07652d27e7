"""A random life of one subscription; `liveness` judges it.

Consumers come, pause, lose their connection and come back; permits are few; the disk is slow or fails; the broker is
killed; the subscription is moved.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from spark_pulsar.broker.entities.subscription import Subscription
from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.broker.topics import lifecycle, policy_changes
from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.broker.turn.events import WritingPaused, WritingResumed
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.positions.ids import EARLIEST, Position
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.keys.murmur3 import STICKY_HASHES
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, MessageMetadata, ServerError
from tests.unit.broker.key_sharing import subscribe
from tests.unit.broker.world import KEPT, QUIET, TOPIC, Client, World, at, positions_of

KINDS: Final[dict[str, int]] = {
    "exclusive": CommandSubscribe.Exclusive,
    "failover": CommandSubscribe.Failover,
    "shared": CommandSubscribe.Shared,
    "keys": CommandSubscribe.Key_Shared,
    "keys in any order": CommandSubscribe.Key_Shared,
    "sticky keys": CommandSubscribe.Key_Shared,
}
CONFIGS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "from disk": {"cache_bytes": 0, "max_read_entries": 3, "max_dispatch_bytes": 200},
    "limits": {
        "max_unacked_per_consumer": 6,
        "max_unacked_per_subscription": 15,
        "look_ahead_per_consumer": 8,
        "key_shared_ring": False,
    },
    "limit of all": {"max_unacked_of_all": 12, "max_unacked_share": 0.5, "max_unacked_per_consumer": 9},
    "small ledgers": {"ledger_max_entries": 5, "ledger_min_age_ms": -1, "cache_bytes": 2_000, "failover_delay_ms": 0},
    "classic": {"key_shared_classic": True, "ledger_max_entries": 20, "ledger_min_age_ms": -1, "failover_delay_ms": 10},
    "expiry": {"default_message_ttl_s": 3, "round_robin_batch": 2},
}
KEYS: Final = 12
SLICES: Final = [(first, first + STICKY_HASHES // 4 - 1) for first in range(0, STICKY_HASHES, STICKY_HASHES // 4)]
"""Sticky hashes that STICKY consumers name."""
_NAME: Final = TopicName.parse(TOPIC)


class Sent:
    """An entry, as the model knows it."""

    def __init__(self, key: str, messages: int = 1, due_ms: int = 0, uuid: str = "") -> None:
        self.key = key
        self.messages = messages
        self.due_ms = due_ms
        self.uuid = uuid


class Eater:
    """A consumer as its client sees it."""

    def __init__(self, client: Client, hash_range: tuple[int, int] | None) -> None:
        self.client = client
        self.hash_range = hash_range
        self.left = 0
        """Permits granted, less messages that came."""
        self.held: set[Position] = set()


class Life:
    """One history of a subscription type under a configuration, and what clients saw of it."""

    def __init__(self, kind: str, config: str, seed: int, **more: Any) -> None:
        self.kind = kind
        self.random = random.Random(f"{kind} {config} {seed}")
        self.has_limits = config.startswith("limit")
        self.expires = config == "expiry"
        self.settings: dict[str, Any] = QUIET | {"batch_index_acks": True} | CONFIGS[config] | more
        if self.random.random() < 0.5:
            self.settings |= KEPT
        self.world = World(**self.settings)
        self.eaters: list[Eater] = []
        self.sent: dict[Position, Sent] = {}
        self.given_back: set[Position] = set()
        """Negatively acked and not delivered again."""
        self.unconfirmed: dict[int, Sent] = {}
        """Entries by sequence id; a receipt makes them `sent`."""
        self.sequence = 0
        self.reads_failed_ms = self.moved_ms = -(1 << 40)
        self.producer = self.world.connect()
        self.steps: dict[Callable[[], None], float] = {
            self.publish: 8, self.join: 4, self.flow: 8, self.ack: 8, self.nack: 3, self.nack_all: 1,
            self.ack_of_another: 1, self.ack_part: 2, self.ack_through: 2, self.close: 1, self.drop: 2,
            self.pause: 2, self.go_on: 3, self.slow_disk: 2, self.fail_reads: 1, self.let_time_pass: 3,
            self.seek: 0.5, self.skip: 0.5, self.unload: 0.3, self.crash: 0.3, self.change_limits: 0.5,
        }  # fmt: skip
        self.join()

    # What may happen

    @property
    def is_sharing(self) -> bool:
        return KINDS[self.kind] in (CommandSubscribe.Shared, CommandSubscribe.Key_Shared)

    def publish(self) -> None:
        if not self.world.core.sessions[self.producer.session_id].producers:
            self.producer.send(requests.producer(self.producer.request_id(), TOPIC, 1, "p"))
        kind = self.random.choices(["plain", "batch", "delayed", "chunks"], [6, 2, 2, 3])[0]
        if kind in ("delayed", "chunks") and (not self.is_sharing or (kind == "chunks" and self.kind != "shared")):
            kind = "plain"
        uuid = f"u{self.sequence}"
        count = 3 if kind == "chunks" else self.random.randint(1, 9)
        data = b""
        for number in range(count):
            what = Sent(f"key-{self.random.randrange(KEYS)}")
            metadata = MessageMetadata(
                producer_name="p", sequence_id=self.sequence, publish_time=self.world.now_ms, partition_key=what.key
            )
            if kind == "batch":
                what.messages = metadata.num_messages_in_batch = self.random.randint(2, 5)
            elif kind == "delayed":
                what.due_ms = metadata.deliver_at_time = self.world.now_ms + self.random.choice([5, 300, 2_000])
            elif kind == "chunks":
                what.uuid = metadata.uuid = uuid
                metadata.chunk_id, metadata.num_chunks_from_msg, metadata.total_chunk_msg_size = number, count, 9
            send = requests.send(1, self.sequence, what.messages, is_chunk=kind == "chunks")
            data += payload_frame(send, build_entry(metadata, b"x" * 20))
            self.unconfirmed[self.sequence] = what
            self.sequence += 1
        self.producer.send_bytes(data)

    def join(self) -> None:
        hash_range = None
        if self.kind == "sticky keys":
            free = [each for each in SLICES if each not in [eater.hash_range for eater in self.eaters]]
            if not free:
                return
            hash_range = self.random.choice(free)
        elif len(self.eaters) >= (1 if self.kind == "exclusive" else 4):
            return
        eater = Eater(self.world.connect(), hash_range)
        name = f"c{self.random.randrange(6)}"
        if KINDS[self.kind] == CommandSubscribe.Key_Shared:
            any_order = self.kind == "keys in any order"
            command = subscribe(name, 1, None if hash_range is None else [hash_range], any_order=any_order)
        else:
            command = requests.subscribe(1, TOPIC, "s", 1, KINDS[self.kind], initial_position=1, consumer_name=name)
            command.subscribe.priority_level = self.random.choice([0, 0, 1])
        self.eaters.append(eater)
        self.moved_ms = self.world.now_ms
        eater.client.send(command)
        self.grant(eater, self.random.choice([1, 3, 40]))

    def grant(self, eater: Eater, permits: int) -> None:
        if 1 in self.world.core.sessions[eater.client.session_id].consumers:  # else they are ignored (SUB-4)
            eater.left += permits
            eater.client.send(requests.flow(1, permits))

    def flow(self) -> None:
        if self.eaters:
            self.grant(self.random.choice(self.eaters), self.random.choice([1, 3, 40]))

    def some(self, positions: set[Position]) -> list[Position]:
        return self.random.sample(sorted(positions), self.random.randint(0, len(positions)))

    def ack(self) -> None:
        for eater in self.one():
            eater.client.ack(self.some(eater.held))

    def ack_of_another(self) -> None:
        """Acks entries that another consumer holds, or none got (ACK-1)."""
        for eater in self.one():
            if self.sent:
                eater.client.ack([self.random.choice(sorted(self.sent))])

    def ack_part(self) -> None:
        """Some messages of a batch (ACK-9)."""
        for eater in self.one():
            batches = sorted(each for each in eater.held if self.sent[each].messages > 1)
            if batches:
                place = self.random.choice(batches)
                eater.client.ack([place], ack_set=self.random.randrange(1, 1 << self.sent[place].messages))

    def ack_through(self) -> None:
        for eater in self.one():
            if eater.held and not self.is_sharing:
                eater.client.ack([self.random.choice(sorted(eater.held))], cumulative=True)

    def nack(self) -> None:
        for eater in self.one():
            self.redeliver(eater, self.some(eater.held)[:3])

    def nack_all(self) -> None:
        for eater in self.one():
            self.redeliver(eater, [])

    def redeliver(self, eater: Eater, places: list[Position]) -> None:
        if self.is_sharing:
            asked = [each for each in self.live(eater) if not places or each in places]
            self.given_back.update(asked)
            uuids = {self.sent[each].uuid for each in asked} - {""}  # of a large message all chunks come again
            eater.held -= {each for each in eater.held if each in asked or self.sent[each].uuid in uuids}
        else:
            eater.held.clear()
        eater.client.send(requests.redeliver(1, places))

    def close(self) -> None:
        for eater in self.one():
            self.forget(eater)
            eater.client.send(requests.close_consumer(9, 1))

    def drop(self) -> None:
        for eater in self.one():
            self.forget(eater)
            eater.client.close()

    def forget(self, eater: Eater) -> None:
        self.eaters.remove(eater)
        self.moved_ms = self.world.now_ms

    def pause(self) -> None:
        for eater in self.one():
            self.world.happen([WritingPaused(eater.client.session_id)])

    def go_on(self) -> None:
        for eater in self.one():
            self.world.happen([WritingResumed(eater.client.session_id)])

    def one(self) -> list[Eater]:
        """One consumer, if there is any."""
        return self.random.sample(self.eaters, min(1, len(self.eaters)))

    def slow_disk(self) -> None:
        self.world.disk_is_slow = not self.world.disk_is_slow
        self.world.happen([])

    def fail_reads(self) -> None:
        self.reads_failed_ms = self.world.now_ms
        self.world.serve_reads(fail=True)
        self.world.happen([])

    def let_time_pass(self) -> None:
        self.world.advance(self.random.choice([1, 50, 400, 1_500]))

    def seek(self) -> None:
        for eater in self.one():
            if self.consumer(eater) is None:
                continue  # waits for the end of another seek
            if self.sent and self.random.random() < 0.5:
                command = requests.seek_to_id(8, 1, at(self.random.choice([EARLIEST, *sorted(self.sent)])))
            else:
                command = requests.seek_to_time(8, 1, self.world.now_ms - self.random.choice([0, 300, 5_000]))
            eater.client.send(command)

    def skip(self) -> None:
        entries = self.random.choice([1, 3, 1_000])
        self.world.ask(lambda core: cursor_moves.skip(core, self.subscription, entries))

    def unload(self) -> None:
        self.world.ask(lambda core: lifecycle.unload(core, core.topics[TOPIC]))

    def change_limits(self) -> None:
        """Sets limits only where they hold at all, so that everywhere else is known which consumers may receive."""
        if self.has_limits:
            member = self.random.choice(
                [policy_table.MAX_UNACKED_PER_CONSUMER, policy_table.MAX_UNACKED_PER_SUBSCRIPTION]
            )
            value = self.random.choice([2, 6, 30, None])
            self.world.ask(lambda core: policy_changes.set_of_topic(core, _NAME, member, value))

    def crash(self) -> None:
        self.world.disk_is_slow = False
        self.world.advance(200)  # acks without receipt are on disk
        self.listen()
        now_ms = self.world.now_ms
        self.world = self.world.restart(**self.settings)
        self.world.advance(now_ms - self.world.now_ms)
        self.eaters.clear()
        self.unconfirmed.clear()
        self.producer = self.world.connect()
        self.join()

    # What came

    @property
    def subscription(self) -> Subscription:
        return self.world.core.topics[TOPIC].subscriptions["s"]

    def listen(self) -> None:
        """Takes note of all that came."""
        for effect in self.producer.take_all():
            if isinstance(effect, fx.SendReceipts):
                for index, sequence_id in enumerate(effect.sequence_ids):
                    place = Position(effect.ledger_id, effect.first_entry_id + index)
                    self.sent[place] = self.unconfirmed.pop(sequence_id)
        for eater in list(self.eaters):
            for effect in eater.client.take_all():
                if isinstance(effect, fx.SendMessages):
                    places = positions_of([effect])
                    for place in places:
                        self.see(eater, place)
                        eater.held.add(place)
                    eater.left -= sum(self.sent[place].messages for place in places)
                elif isinstance(effect, fx.CloseSession):
                    raise AssertionError(effect.reason)
                elif isinstance(effect, fx.SendCommand):
                    self.hear(eater, effect.command)

    def see(self, eater: Eater, place: Position) -> None:
        """An entry came."""

    def hear(self, eater: Eater, command: BaseCommand) -> None:
        if command.type == BaseCommand.CLOSE_CONSUMER:
            self.forget(eater)
        elif command.type == BaseCommand.ACTIVE_CONSUMER_CHANGE and command.active_consumer_change.is_active:
            for each in self.eaters:  # the new one starts at mark-delete
                each.held.clear()
        elif command.type == BaseCommand.ERROR and command.error.error == ServerError.ServiceNotReady:
            self.forget(eater)  # closed before it was there
        elif command.type == BaseCommand.ERROR:
            raise AssertionError(command)

    def live(self, eater: Eater) -> list[Position]:
        """Lists the unacknowledged entries of a consumer."""
        cursor = self.subscription.cursor
        return [place for place in eater.held if not cursor.is_acked(*place)]

    def consumer(self, eater: Eater) -> Any:
        return self.world.core.sessions[eater.client.session_id].consumers.get(1)

    def can_receive(self, eater: Eater) -> bool:
        consumer = self.consumer(eater)
        return consumer is not None and eater.left > 0 and consumer.ready and consumer.session.writable
