"""The administrator: asks the core for what the REST layer asks it for, and knows from the account what must follow.

Everything is asked in a turn of its own, when nothing that the broker did lies unwritten: then the account says exactly
which entries a request is about. An answer may come only when all of it is on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import TYPE_CHECKING, Any

from spark_pulsar.admin.subscriptions import cursors
from spark_pulsar.admin.topics import topic_lifecycle
from spark_pulsar.broker.message_lifetime import compaction
from spark_pulsar.broker.message_lifetime.ttl import CLOCK_TOLERANCE_MS
from spark_pulsar.broker.subscriptions import cursor_moves, subscribing
from spark_pulsar.broker.topic_log import entry_lookup, termination
from spark_pulsar.broker.turn.events import Requested
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import Position

from .account import Place, Topic
from .comparing import Violation
from .orders import Expiring, Seek

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core

    from .world import World

Answer = Callable[[Any], None]
MOST_PARTITIONS = 3


def partition_names(base: str, count: int = MOST_PARTITIONS) -> list[str]:
    """Full names of the first partitions."""
    return [f"{base}-partition-{index}" for index in range(count)]


def _on_a_subscription(step: Callable[[Administrator, str, str, Topic], None]) -> Callable[[Administrator], None]:
    """Does a step on a durable subscription, if there is any, with its topic's account."""

    def chosen(self: Administrator) -> None:
        known = [
            (name, subscription, topic)
            for name, topic in self._world.judge.current.topics.items()
            for subscription in topic.subscriptions
        ]
        if known:
            step(self, *self._random.choice(known))

    return chosen


def _on_a_topic(step: Callable[[Administrator, str], None]) -> Callable[[Administrator], None]:
    """Does a step on a topic that there is, if any."""

    def chosen(self: Administrator) -> None:
        known = [name for name in self._topics if name in self._world.judge.current.topics]
        if known:
            step(self, self._random.choice(known))

    return chosen


class Administrator:
    """Asks for things at random, one method each; `profile.FEATURES` names them."""

    def __init__(self, world: World, topic_names: list[str], partitioned: str | None) -> None:
        self._world = world
        self._random = world.random
        self._topics = topic_names
        self._partitioned = partitioned

    # Asking

    def ask(self, what: str, request: Callable[[Core], None], *more: Any) -> None:
        """Has the core do it, in a turn of its own."""
        world = self._world
        world.flush()
        if world.core._records:
            return

        def asked(core: Core) -> None:
            try:
                request(core)
            except PulsarError as error:
                world.note("refused", what, error.message)

        world.note("asks", what, *more)
        world.turn([Requested(asked)])
        world.judge.deleting.clear()
        world.compare()

    def answer(self, core: Core, what: str) -> Answer:
        """Makes the call that hears the answer when the core says that all is on disk."""
        judge = self._world.judge

        def answer(_: Any = None) -> None:
            wanted = judge.submitted + 1 if core._records else judge.last_of_core

            def answered() -> None:
                if judge.on_disk < wanted:
                    raise Violation(f"{what} is answered before it is on disk (CUR-11, CUR-14)")
                self._world.note("answered", what)

            core.when_durable(answered)

        return answer

    def _on_disk(self, core: Core, topic_name: str, name: str) -> list[Place]:
        """Lists the unacknowledged entries of a subscription that the core knows to be on disk."""
        through = tuple(core.topics[topic_name].last_add_confirmed)
        return [place for place in self._world.judge.current.topics[topic_name].unacked(name) if place <= through]

    def _consume(self, topic_name: str, name: str, places: Iterable[Place]) -> None:
        """Notes that a request wants these entries acknowledged, and nothing else."""
        places = list(places)
        if places:
            self._world.judge.post("acked", topic_name, name, places)
            self._world.witness.consumed(topic_name, name, places)

    # Subscriptions

    @_on_a_subscription
    def skip(self, topic_name: str, name: str, topic: Topic) -> None:
        """The next entries are done (CUR-14)."""
        count = self._random.choice((1, 1, 2, 5, 1_000))

        def request(core: Core) -> None:
            parsed = TopicName.parse(topic_name)
            cursors.one(core, parsed, name)
            self._consume(topic_name, name, self._on_disk(core, topic_name, name)[:count])
            answer = self.answer(core, "skip")
            cursors.skip(core, parsed, name, count)
            answer(None)

        self.ask("skip", request, topic_name, name, count)

    @_on_a_subscription
    def clear_backlog(self, topic_name: str, name: str, topic: Topic) -> None:
        """Clears the backlog: all entries on disk are acknowledged (CUR-14)."""

        def request(core: Core) -> None:
            parsed = TopicName.parse(topic_name)
            cursors.one(core, parsed, name)
            self._consume(topic_name, name, self._on_disk(core, topic_name, name))
            answer = self.answer(core, "clear-backlog")
            cursors.clear_backlog(core, parsed, name)
            answer(None)

        self.ask("clear-backlog", request, topic_name, name)

    def _places(self, topic: Topic) -> list[Place]:
        return [(-1, -1), ((1 << 63) - 1, (1 << 63) - 1), (3, 1), *topic.log, *topic.log]

    @_on_a_subscription
    def reset_to_place(self, topic_name: str, name: str, topic: Topic) -> None:
        """A place is next, or the one after it, or a message inside a batch (CUR-11)."""
        place = self._random.choice(self._places(topic))
        sent = topic.log.get(place)
        index = -1 if sent is None or sent.count == 1 else self._random.randint(-1, sent.count)
        excluded = self._random.random() < 0.3

        def request(core: Core) -> None:
            parsed = TopicName.parse(topic_name)
            subscription = cursors.one(core, parsed, name)
            if not subscription.fenced:
                self._world.witness.moves(
                    subscription,
                    Seek(place, 0, tuple(subscription.topic.last_add_confirmed), index=index, excluded=excluded),
                )
            answer = self.answer(core, "reset-cursor")
            cursors.reset_to_place(core, parsed, name, cursors.Place(Position(*place), index, -1, excluded), answer)

        self.ask("reset-cursor", request, topic_name, name, place, index, excluded)

    @_on_a_subscription
    def reset_to_time(self, topic_name: str, name: str, topic: Topic) -> None:
        """The first entry of a time is next (CUR-12)."""
        times = [self._world.now_ms, 0, *(sent.publish_ms for sent in topic.log.values())]
        time_ms = max(0, self._random.choice(times) + self._random.choice((0, 0, 1, -1)))

        def request(core: Core) -> None:
            parsed = TopicName.parse(topic_name)
            subscription = cursors.one(core, parsed, name)
            if not subscription.fenced:
                self._world.witness.moves(
                    subscription, Seek(None, time_ms, tuple(subscription.topic.last_add_confirmed))
                )
            answer = self.answer(core, "reset-cursor by time")
            cursors.reset_to_time(core, parsed, name, time_ms, answer)

        self.ask("reset-cursor by time", request, topic_name, name, time_ms)

    @_on_a_subscription
    def expire_by_time(self, topic_name: str, name: str, topic: Topic) -> None:
        """Expires entries older than an age, from the front up to the first that is not (TTL-8)."""
        ages = [(self._world.now_ms - sent.publish_ms) // 1000 for sent in topic.log.values()]
        age_s = max(0, self._random.choice([0, 1, 60, *ages]))

        def request(core: Core) -> None:
            parsed = TopicName.parse(topic_name)
            subscription = cursors.one(core, parsed, name)
            expiring = Expiring(topic_name, name, core.now_ms - 1000 * age_s, core.now_ms + CLOCK_TOLERANCE_MS)
            expiring.wanted = self._on_disk(core, topic_name, name)
            expiring.is_exact = not self._world.judge.seeks.get((topic_name, name))  # it may be moved meanwhile
            self._world.judge.expiring.append(expiring)
            done = self.answer(core, "expire-messages")

            def answer(_: Any) -> None:
                expiring.check(self._world.judge.current, subscription)
                done(None)

            cursors.expire_by_time(core, parsed, name, age_s, answer)

        self.ask("expire-messages", request, topic_name, name, age_s)

    @_on_a_subscription
    def expire_to_place(self, topic_name: str, name: str, topic: Topic) -> None:
        """Everything up to an entry is done (TTL-8)."""
        if not topic.log:
            return
        place, excluded = self._random.choice(list(topic.log)), self._random.random() < 0.3

        def request(core: Core) -> None:
            parsed = TopicName.parse(topic_name)
            through = tuple(cursors.one(core, parsed, name).topic.last_add_confirmed)
            if place in self._world.judge.current.topics[topic_name].log and place <= through:
                unacked = self._on_disk(core, topic_name, name)
                self._consume(
                    topic_name, name, (each for each in unacked if each < place or (each == place and not excluded))
                )
            answer = self.answer(core, "expire-messages to a place")
            cursors.expire_to_place(core, parsed, name, cursors.Place(Position(*place), excluded=excluded))
            answer(None)

        self.ask("expire-messages to a place", request, topic_name, name, place, excluded)

    @_on_a_subscription
    def peek(self, topic_name: str, name: str, topic: Topic) -> None:
        """The n-th unacked entry (CUR-15)."""
        number = self._random.choice((1, 1, 2, 4))

        def request(core: Core) -> None:
            subscription = cursors.one(core, TopicName.parse(topic_name), name)
            wanted = self._on_disk(core, topic_name, name)
            position = cursor_moves.nth_unacked(subscription, number)
            expected = wanted[number - 1] if len(wanted) >= number else None
            if position != expected:
                raise Violation(f"peek {number} of {name} of {topic_name}: {position}, should be {expected} (CUR-15)")
            if position is None:
                return

            def shown(entry: bytes | None) -> None:
                topic = self._world.judge.current.topics.get(topic_name)
                sent = None if topic is None or expected is None else topic.log.get(expected)
                if entry is not None and sent is not None and sent.entry != entry:
                    raise Violation(f"peek {number} of {name} of {topic_name} shows another entry than {expected}")

            entry_lookup.fetch(core, position, shown)

        self.ask("peek", request, topic_name, name, number)

    # Topics

    def delete_subscriptions(self, topic_name: str) -> None:
        """Deletes all subscriptions of a topic."""

        def request(core: Core) -> None:
            topic = topic_lifecycle.existing(core, TopicName.parse(topic_name))
            for subscription in list(topic.subscriptions.values()):
                self._world.judge.unsubscribing.add((topic_name, subscription.name))
                subscribing.delete(core, subscription)

        self.ask("delete subscriptions", request, topic_name)

    @_on_a_topic
    def delete_topic(self, topic_name: str) -> None:
        """A topic or a partition goes, with all it has; clients do not protect it when forced."""
        force = self._random.random() < 0.7

        def request(core: Core) -> None:
            self._world.judge.deleting.add(topic_name)
            answer = self.answer(core, "delete")
            topic_lifecycle.delete(core, TopicName.parse(topic_name), force=force)
            self._forgotten(topic_name)
            answer(None)

        self.ask("delete", request, topic_name, force)

    @_on_a_topic
    def compact(self, topic_name: str) -> None:
        """A topic is to be compacted now (CMP-C6)."""
        self.compact_one(topic_name)

    def compact_one(self, topic_name: str) -> None:
        """This topic is to be compacted now."""

        def request(core: Core) -> None:
            compaction.request(core, topic_lifecycle.existing(core, TopicName.parse(topic_name)))

        self.ask("compact", request, topic_name)

    @_on_a_topic
    def terminate(self, topic_name: str) -> None:
        """A topic takes no more entries (TN-13)."""

        def request(core: Core) -> None:
            self._world.judge.terminating = {topic_name}
            answer = self.answer(core, "terminate")
            termination.terminate(core, topic_lifecycle.existing(core, TopicName.parse(topic_name)))
            answer(None)

        self.ask("terminate", request, topic_name)

    def _forgotten(self, topic_name: str) -> None:
        """Notes that the topic was deleted: its entries are delivered no more, and its policies are gone."""
        self._world.witness.deleted(topic_name)
        self._world.judge.forget_policies(topic_name)

    def create_partitioned(self) -> None:
        """A partitioned topic with all its partitions."""
        self._create(self._base(), self._random.randint(1, MOST_PARTITIONS))

    def grow(self) -> None:
        """More partitions; each has the subscriptions of the first (PT-7)."""
        self._grow(self._base(), self._random.randint(1, MOST_PARTITIONS))

    def grow_fully(self) -> None:
        """All partitions exist, so that every producer can send what it has."""
        base = self._base()
        if base.full in self._world.judge.current.partition_counts:
            self._grow(base, MOST_PARTITIONS)
        else:
            self._create(base, MOST_PARTITIONS)

    def _create(self, base: TopicName, count: int) -> None:
        self._make(
            "create-partitioned-topic", count, lambda core: topic_lifecycle.create_partitioned(core, base, count, {})
        )

    def _grow(self, base: TopicName, count: int) -> None:
        self._make("update-partitioned-topic", count, lambda core: topic_lifecycle.grow(core, base, count))

    def _base(self) -> TopicName:
        assert self._partitioned is not None, "asked of histories with partitions"
        return TopicName.parse(self._partitioned)

    def _make(self, what: str, count: int, make: Callable[[Core], None]) -> None:
        base = self._base().full

        def request(core: Core) -> None:
            judge = self._world.judge
            names = partition_names(base, count)
            new = [name for name in names if name not in judge.current.topics]
            old = [judge.current.topics[name] for name in names if name in judge.current.topics]
            expected = {subscription for topic in old for subscription in topic.subscriptions}
            for name, subscription in product(new, expected):
                judge.beginnings.ask(name, subscription, judge.rules.turns, latest=False)
            grows = judge.current.partition_counts.get(base, 0) < count
            answer = self.answer(core, what)
            make(core)
            for name in names if grows else ():
                known = core.state.topics_by_name.get(name)
                if known is None:
                    raise Violation(f"{what} to {count}: {name} does not exist (PT-7)")
                if name in new and set(known.cursors) != expected:
                    raise Violation(f"{name} begins with {list(known.cursors)}, should have {expected} (PT-7)")
            answer(None)

        self.ask(what, request, base, count)

    def delete_partitioned(self) -> None:
        """A partitioned topic goes with all its partitions."""
        base, force = self._base(), self._random.random() < 0.7

        def request(core: Core) -> None:
            non_persistent = self._world.judge.current
            names = partition_names(base.full, non_persistent.partition_counts.get(base.full, 0))
            self._world.judge.deleting.update((base.full, *names))
            answer = self.answer(core, "delete-partitioned-topic")
            topic_lifecycle.delete_partitioned(core, base, force=force)
            left = [name for name in names if name in core.state.topics_by_name]
            if left:
                raise Violation(f"{base.full} was deleted, and {left} are still there (PT-7)")
            for name in names:
                self._forgotten(name)
            answer(None)

        self.ask("delete-partitioned-topic", request, base.full, force)
