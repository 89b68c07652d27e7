"""One history: a seed's world, step by step, then healed, drained and killed once more."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass

from spark_pulsar.model.policies import policy_table
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe

from .account import Place
from .comparing import Violation
from .profile import draw
from .rules import NOTHING
from .steps import Steps
from .throttling import AMPLE

_PATIENCE = 4_000
"""Rounds after which a healed world that is not quiet is stuck."""
_REST_MS = 3_000
"""So long nothing happens in a world that is quiet."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one history."""

    seed: int
    trace_hash: str
    turns: int
    starts: int
    entries: int
    receipts: int
    deliveries: int
    acks: int
    commits: int
    aborts: int
    timed_out: int
    transaction_acks: int


class History(Steps):
    """History of a seed's world: its steps, and what must be true in the end."""

    def run(self) -> None:
        """The whole history. Violation, or AssertionError from an invariant, when the broker breaks a promise."""
        choices = self.random.choices
        indexes = range(len(self._actions))
        if self.random.random() < 0.9:
            self._begin()
        for step in range(self.profile.steps):
            index = choices(indexes, cum_weights=self._cumulated)[0]
            self.world.note("step", step, self._names[index])
            self._actions[index]()
            if step % 25 == 24:
                self.world.compare()
        self.finish()

    # The end

    def finish(self) -> None:
        """Heal everything, let every producer finish, drain every subscription, die once more."""
        world, judge = self.world, self.world.judge
        if not world.store.heal():
            world.restart()
        self._hurry()
        self._make_all_partitions()
        self._until_quiet()
        if judge.transactions.is_on:
            self._end_all_transactions()
            self._until_quiet()
        self._check_expiry()
        self._give_up_nothing()
        self._make_all_partitions()
        self._until_quiet(producers=True)
        world.compare()
        if "types" in self.profile.features or "delays" in self.profile.features:
            self._serve_everybody()
            takes_time = not self.profile.features.isdisjoint(("delays", "rates"))
            self._until_quiet(rest_ms=_REST_MS if takes_time else 0)
        if "delays" in self.profile.features and "policies" in self.profile.features:
            world.witness.deliveries.check_nothing_is_stuck()
        if "delays" in self.profile.features and self._wait_for_delays():
            self._until_quiet()
        world.witness.deliveries.check_nothing_is_stuck()
        world.witness.deliveries.takeovers.check_at_rest()
        world.witness.endings.check_at_rest()
        if "compaction" in self.profile.features:
            self._check_compacted()
        for client in world.clients:
            for producer in client.producers:
                if self._has_ended(producer.topic):
                    continue
                ever, owner = judge.durable.ever, (producer.topic, producer.name)
                lost = [number for number in range(producer.sent) if (*owner, number) not in ever]
                lost = [number for number in lost if number not in producer.given_up]
                if producer.topic.startswith("non-") or owner in judge.rules.refused:
                    lost = []
                if lost or producer.waiting:
                    raise Violation(f"{producer.name}: {lost} were never stored, {len(producer.waiting)} wait (DUR-1)")
        self._drain()
        world.crash()
        if self.profile.sync != "always":  # what was acked may have come back, and policies too
            self._give_up_nothing()
            self._drain()
            world.crash(only_process=True)
        self._drain(expect_nothing=True)
        world.end()

    def _make_all_partitions(self) -> None:
        """No client tries for ever to reach a partition that nobody makes."""
        if self.partitioned is not None:
            self.administrator.grow_fully()

    def _hurry(self) -> None:
        """No rate makes anything wait for long."""
        for topic_name, member in list(self.world.judge.current.policies):
            if member in AMPLE:
                self.world.set_policy(topic_name, member, AMPLE[member])

    def _give_up_nothing(self) -> None:
        """No policy lets the broker give up an entry."""
        if "inactivity" in self.profile.features:
            self.world.set_policy(None, policy_table.INACTIVE_TOPIC, NOTHING[policy_table.INACTIVE_TOPIC])
        if self.profile.features.issuperset(("delays", "policies")):
            self.world.set_policy(None, policy_table.DELAYED_DELIVERY, NOTHING[policy_table.DELAYED_DELIVERY])
        for topic_name, member in list(self.world.judge.current.policies):
            value = NOTHING[member]
            if member == policy_table.DELAYED_DELIVERY and self.profile.seed % 2:
                value = {**value, "active": False}  # then nothing may wait
            if member in AMPLE and self.profile.seed % 2:
                value = AMPLE[member]  # what is limited comes all the same
            self.world.set_policy(topic_name, member, value)

    def _check_expiry(self) -> None:
        """Checks that no unacknowledged entry is much older than its time to live (TTL-2, better)."""
        world, judge = self.world, self.world.judge
        for _ in range(6):
            world.advance(500)
            self._bustle()
        for topic_name, topic in judge.current.topics.items():
            if topic_name in world.core.topics and not self.profile.clock_goes_back:
                late = judge.rules.overdue(topic_name, topic, 2_500)
                if late:
                    raise Violation(f"{topic_name}: {late} are wanted and should have expired long ago (TTL-2)")

    def _wait_for_delays(self) -> bool:
        """Whatever is delayed is due. Whether something was not."""
        times = [
            sent.deliver_at_ms for topic in self.world.judge.current.topics.values() for sent in topic.log.values()
        ]
        left_ms = max(times, default=0) - self.world.now_ms
        self.world.advance(max(0, left_ms))
        return left_ms > 0

    def _check_compacted(self) -> None:
        """A reader of the compacted view of each topic, compacted just now, gets all of it (CMP-C4)."""
        world, client = self.world, self.world.clients[0]
        for topic_name in world.judge.current.topics:
            self.administrator.compact_one(topic_name)
        self._until_quiet(rest_ms=0)
        if client.link is None:
            world.connect(client)
            self._until_quiet(rest_ms=0)
        for topic_name in world.judge.current.topics:
            client.open_compacted_reader(topic_name, "all", 1 << 20)
        self._until_quiet()
        readers = {each.topic: each for each in client.consumers.values() if each.subscription == "all"}
        for topic_name, topic in world.judge.current.topics.items():
            wanted = {*topic.view, *(place for place in topic.log if topic.horizon is None or place > topic.horizon)}
            wanted -= topic.withheld
            got = readers[topic_name].inbox.keys() if topic_name in readers else set()
            if wanted != got:
                raise Violation(f"{topic_name}: a reader of the compacted view got {got}, not {wanted} (CMP-C4)")

    def _until_quiet(self, *, producers: bool = False, rest_ms: int = _REST_MS) -> None:
        """Everything that is under way arrives and is done, and then nothing happens for a while."""
        world = self.world
        before = 0
        rests_until: int | None = None
        for _ in range(_PATIENCE):
            if producers:
                self._open_producers()
            for link in list(world.links.values()):
                if not link.is_read and world.core.sessions.get(link.session_id) is None:
                    link.is_read = True
                world.carry_up(link)
                world.carry_down(link)
            for session_id, session in list(world.core.sessions.items()):
                if not session.writable and session_id in world.links:
                    world.socket(world.links[session_id], writable=True)
            world.write()
            world.settle()
            world.serve_reads()
            world.compact()
            if len(world.trace) != before or world.is_busy:
                before, rests_until = len(world.trace), None
                world.advance(0)
                continue
            if rests_until is None:
                rests_until = world.now_ms + rest_ms
            if world.now_ms >= rests_until:
                return
            deadline = world.broker.next_deadline()
            left_ms = rests_until - world.now_ms
            world.advance(left_ms if deadline is None else max(1, min(left_ms, deadline - world.now_ms)))
        raise Violation("the healed world does not come to rest")

    def _open_producers(self) -> None:
        """Opens the producers with entries to send; where some want exclusive access, one after the other."""
        everybody = [producer for client in self.world.clients for producer in client.producers]
        takes_turns = "access" in self.profile.features
        for producer in everybody if takes_turns else ():
            if producer.state == "open" and not producer.waiting:
                producer.close()
        busy = {producer.topic for producer in everybody if takes_turns and producer.state != "closed"}
        for client in self.world.clients:
            if client.link is None and any(producer.waiting for producer in client.producers):
                self.world.connect(client)
            for producer in client.producers:
                wants = client.connected and producer.state == "closed" and producer.waiting
                if wants and producer.topic not in busy and not self._has_ended(producer.topic):
                    client.open_producer(producer)
                    busy.update((producer.topic,) if takes_turns else ())

    def _has_ended(self, topic_name: str) -> bool:
        topic = self.world.judge.current.topics.get(topic_name)
        return topic is not None and topic.is_terminated

    def _drain(self, *, expect_nothing: bool = False) -> None:
        """A lone consumer of each subscription gets everything that is not acked, and acks it."""
        world, judge = self.world, self.world.judge
        for link in list(world.links.values()):
            world.cut(link)
        client = world.clients[0]
        world.connect(client)
        self._until_quiet(rest_ms=0)
        self._let_all_time_out()
        if "delays" in self.profile.features:
            self._wait_for_delays()
        wanted = {
            (topic_name, name): topic.unacked(name)
            for topic_name, topic in judge.current.topics.items()
            for name in topic.subscriptions
        }
        got: dict[tuple[str, str], list[Place]] = {key: [] for key in wanted}
        for (topic_name, name), places in wanted.items():
            if expect_nothing and places:
                raise Violation(f"{name} of {topic_name}: acked with receipts, and {places} came back (ACK-4)")
            kind = self.kinds[int(name[1:])]
            client.open_consumer(topic_name, name, kind, 1 << 20, initial_position=CommandSubscribe.Earliest)
        rest_ms = 0
        while True:
            self._until_quiet(rest_ms=rest_ms)
            consumers = {(each.topic, each.subscription): each for each in client.consumers.values()}
            fresh = False
            for key, places in got.items():
                consumer = consumers.get(key)
                if consumer is None or consumer.state != "open":
                    raise Violation(f"{key[1]} of {key[0]}: a consumer is refused without another one")
                if consumer.inbox:
                    fresh = True
                    positions = [Position(*place) for place in consumer.inbox]
                    places += consumer.inbox
                    consumer.inbox.clear()
                    client.tell(requests.ack(consumer.consumer_id, positions, request_id=client.request_id()))
            if not fresh and rest_ms:
                break
            rest_ms = 0 if fresh else _REST_MS
        for (topic_name, name), places in wanted.items():
            if sorted(got[topic_name, name]) != places:
                missing = sorted(set(places) - set(got[topic_name, name]))
                raise Violation(f"{name} of {topic_name}: {missing} are not acked and never delivered (SH-10)")


def run(
    seed: int,
    *,
    storage: str | None = None,
    without: Collection[str] = (),
    observe: Callable[[History], None] | None = None,
    tell: Callable[[str], None] | None = None,
) -> Result:
    """Runs the history of a seed. The error of a failure has the story's end in its notes; `tell` gets all of it."""
    history = History(draw(seed, storage=storage, without=without))
    if observe is not None:
        observe(history)
    world = history.world
    try:
        history.run()
    except Exception as error:
        tail = "\n".join(map(_line, world.trace[-60:]))
        error.add_note(f"seed {seed}; the end of its story:\n{tail}\nmake simulate SEEDS={seed}")
        raise
    finally:
        if tell is not None:
            tell(str(history.profile))
            for line in world.trace:
                tell(_line(line))
        world.store.dispose()
    digest = hashlib.blake2b(repr(world.trace).encode(), digest_size=16).hexdigest()
    told = world.told
    return Result(
        seed,
        digest,
        world.turns,
        world.starts,
        len(world.judge.sent),
        told["receipts"],
        told["deliveries"],
        told["acks"],
        told["commits"],
        told["aborts"],
        world.judge.transactions.counts["timed out"],
        told["acks in transactions"],
    )


def _line(line: tuple[object, ...]) -> str:
    return ("" if line[0] == "step" else "    ") + " ".join(map(str, line))
