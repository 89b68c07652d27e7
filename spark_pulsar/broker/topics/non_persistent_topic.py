"""Non-persistent topics: an entry goes to consumers with permits at once, and is not stored (NP-1 ... NP-9).

Such a topic is a `Topic` whose durable part is in memory only: a ledger without ledgers, cursors of readers. No record
is made of it, and a run never waits for the disk: receipts first, then one delivery for each subscription, straight out
of the received bytes, so that none is dropped for a number of messages in progress (NP-4). Messages without permits are
dropped and counted. The broker holds no entry.

A topic without clients is removed after a while with its subscriptions (NP-7, NP-8). Only the number of partitions of
a partitioned one is durable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from spark_pulsar.broker.entities.producer import send_receipts
from spark_pulsar.broker.entities.subscription import Subscription
from spark_pulsar.broker.entities.topic import NonPersistentEntries
from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.managed_ledgers.managed_ledger import ManagedLedger
from spark_pulsar.ledger.state.cursors.cursor import Cursor
from spark_pulsar.ledger.state.topics import TopicState
from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.model.name_index import NameIndex
from spark_pulsar.model.positions.ids import EARLIEST
from spark_pulsar.wire.sends.send_runs import CHUNK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.producer import Producer
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.turn import Timer
    from spark_pulsar.model.names import TopicName
    from spark_pulsar.wire.sends.send_runs import SendRun

_LEDGER_ID: Final = 0
_NO_ID: Final = -1
"""Id of each non-persistent topic; no record names it."""


class NonPersistentTopics:
    """Non-persistent topics in use, and the rounds that remove unused ones."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._round: Timer | None = None
        self.by_name: dict[str, Topic] = {}
        self.names = NameIndex()

    def add(self, topic: Topic) -> None:
        """Adds a topic."""
        topic.non_persistent = NonPersistentEntries()
        self.by_name[topic.full_name] = self._core.topics[topic.full_name] = topic
        self.names.add(topic.full_name)
        self._go_on()

    def remove(self, topic: Topic) -> None:
        """Removes a topic that was deleted or is unused; its clients were closed before."""
        self._core.monitors.remove_topic(topic)
        if self.by_name.pop(topic.full_name, None) is not None:
            self.names.remove(topic.full_name)
        self._core.topics.pop(topic.full_name, None)
        topic.remove_all_subscriptions()

    def _go_on(self) -> None:
        if self._round is None and self.by_name:
            core = self._core
            self._round = core.at(core.now_ms + core.config.inactive_check_interval_ms, self._remove_unused)

    def _remove_unused(self) -> None:
        """Removes topics that were unused in the round before, too."""
        self._round = None
        for topic in list(self.by_name.values()):
            assert topic.non_persistent is not None, "it is one of these"
            is_unused = not (topic.producers or topic.consumer_count or (topic.access and topic.access.waiters))
            if is_unused and topic.non_persistent.was_unused:
                self.remove(topic)
            topic.non_persistent.was_unused = is_unused
        self._go_on()


def check_enabled(core: Core, name: TopicName) -> None:
    """Raises NotAllowed for a non-persistent topic where they are off (NP-1)."""
    if not name.is_persistent and not core.config.non_persistent_topics:
        raise NotAllowed("Broker is unable to load persistent topic")


def volatile_state(core: Core, name: TopicName, properties: Mapping[str, str]) -> TopicState:
    """Makes the state that other topics have in the durable state."""
    return TopicState(_NO_ID, name.full, core.wall_ms, dict(properties), ManagedLedger(_NO_ID))


def create_subscription(core: Core, topic: Topic, name: str, properties: Mapping[str, str]) -> Subscription:
    """Creates a subscription, which has no position and lives as long as its topic (NP-8)."""
    subscription = Subscription(core, topic, Cursor(topic.ledger, name, EARLIEST, properties=properties))
    subscription.born_group = 0  # nothing of it is ever on disk
    topic.add_subscription(subscription)
    return subscription


class Receiving(Protocol):
    """Dispatcher of a non-persistent topic (`dispatch.non_persistent`)."""

    def deliver(self, run: EntryRun) -> None:
        """Sends a run to consumers with permits; drops and counts the rest."""


def publish(core: Core, producer: Producer, sends: SendRun) -> None:
    """Publishes a run: receipts, then one delivery for each subscription (NP-1, NP-2, NP-3)."""
    topic = producer.topic
    non_persistent = topic.non_persistent
    assert non_persistent is not None, "the topic is non-persistent"
    entries, messages = len(sends.ends), sum(sends.message_counts)
    counts = None if messages == entries else sends.message_counts
    run = EntryRun(_LEDGER_ID, non_persistent.entries, sends.buffer, sends.starts, sends.ends, counts)
    non_persistent.entries += entries
    size_bytes = sends.ends[-1] - sends.starts[0]
    producer.messages_in += messages
    producer.bytes_in += size_bytes
    topic.messages_in += messages
    topic.bytes_in += size_bytes
    topic.last_published_ms = core.wall_ms
    if sends.flags & CHUNK:
        producer.chunks_in += entries
        topic.state.has_chunks = True
    send_receipts(core, producer, sends, run.ledger_id, run.first_entry_id)
    for subscription in topic.subscriptions.values():
        if subscription.consumers:
            dispatcher: Receiving = subscription.dispatcher  # type: ignore[assignment]
            dispatcher.deliver(run)
        else:
            subscription.messages_dropped += messages
