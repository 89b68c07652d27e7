"""Exclusive access of producers: access modes, producers that wait, and the topic's epoch (PR-3 ... PR-8).

An epoch is one stretch of exclusive access. It is a durable record that is on disk before its holder hears of it, so
that a holder of an earlier one is refused over restarts too: there is never more than one leader.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_pulsar.ledger.state.topics import UNSET, TopicEpochSet
from spark_pulsar.model.errors import ProducerBusy, ProducerFenced, PulsarError
from spark_pulsar.wire.pulsar_api_pb2 import CommandProducer, ProducerAccessMode

if TYPE_CHECKING:
    from .core import Core
    from .producer import Producer
    from .session import Session
    from .topic import Topic

MAX_EPOCH: Final = 1 << 62
"""Highest epoch that a client may bring along; every further one fits into a record."""

MAX_WAITERS: Final = 10_000
"""Producers that may wait for one topic."""

Grant = Callable[[], None]
Refuse = Callable[[PulsarError], None]


@dataclass(slots=True, eq=False)
class Waiter:
    """A producer that waits for exclusive access (PR-6)."""

    access: Access
    session: Session
    producer_id: int
    grant: Grant
    """Call that opens the producer, or raises why not."""
    refuse: Refuse
    """Call that answers its request with an error."""

    def leave(self) -> None:
        """Ends the wait: granted, refused, closed by the client, or the client is gone."""
        self.session.waiting_producers.pop(self.producer_id, None)
        del self.access.waiters[self]


class Access:
    """Exclusive access to one topic: its holder, and the producers that wait for it, in order."""

    __slots__ = ("holder", "topic", "waiters")

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.holder: Producer | None = None
        self.waiters: OrderedDict[Waiter, None] = OrderedDict()
        """Waiting producers, the first one longest. Thousands may leave at once, from anywhere."""

    def left(self, producer: Producer) -> None:
        """Notes that a producer left the topic: the next one that waits may get it."""
        if self.holder is producer:
            self.holder = None
        self.promote()

    def promote(self) -> None:
        """Grants a topic without producers to the first that waits and can be opened."""
        while self.waiters and not self.topic.producers:
            waiter = next(iter(self.waiters))
            waiter.leave()
            try:
                waiter.grant()
            except PulsarError as error:
                waiter.refuse(error)

    def refuse_waiters(self, error: PulsarError) -> None:
        """Refuses all producers that wait."""
        while self.waiters:
            waiter = next(iter(self.waiters))
            waiter.leave()
            waiter.refuse(error)


def epoch_of(command: CommandProducer) -> int | None:
    """Reads the epoch that a client brings along. Shared producers may send one that means nothing (PR-4)."""
    return command.topic_epoch if command.HasField("topic_epoch") else None


def must_wait(topic: Topic, mode: int, epoch: int | None) -> bool:
    """Returns whether a producer has to wait for the topic, or may open now. Raises ProducerBusy or ProducerFenced when
    it may neither."""
    access = topic.access
    taken = access is not None and (access.holder is not None or bool(access.waiters))
    if mode == ProducerAccessMode.Shared:
        if taken:
            raise ProducerBusy(_held_by(topic))
        return False
    if mode == ProducerAccessMode.Exclusive:
        if taken:
            raise ProducerFenced(_held_by(topic))
        if topic.producers:
            raise ProducerFenced("Topic has existing shared producers")
    check_epoch(topic, epoch)
    return mode == ProducerAccessMode.WaitForExclusive and bool(taken or topic.producers)


def check_epoch(topic: Topic, epoch: int | None) -> None:
    """Raises ProducerFenced when a client brings an epoch that is over: it had the topic and lost it (PR-7)."""
    current = topic.state.epoch
    if epoch is not None and not current <= epoch <= MAX_EPOCH:
        raise ProducerFenced(
            f"Topic epoch has already moved. Current epoch: {max(current, 0)}, Producer epoch: {epoch}"
        )


def grant(core: Core, topic: Topic, producer: Producer, epoch: int | None) -> None:
    """Gives a producer exclusive access, in the epoch it brings along or the next one."""
    current = topic.state.epoch
    wanted = current + 1 if epoch is None else epoch
    access_of(topic).holder = producer
    if topic.non_persistent is not None:
        topic.state.epoch = wanted  # as long as the topic lives
    elif wanted != current:
        core.append(TopicEpochSet(topic.state.topic_id, wanted))


def wait(topic: Topic, session: Session, producer_id: int, grant: Grant, refuse: Refuse) -> None:
    """Makes a producer wait behind those that wait already. ProducerBusy when they are too many."""
    access = access_of(topic)
    if len(access.waiters) >= MAX_WAITERS:
        raise ProducerBusy(f"Topic '{topic.name}' has {MAX_WAITERS} producers that wait for it, and takes no more")
    waiter = Waiter(access, session, producer_id, grant, refuse)
    access.waiters[waiter] = None
    session.waiting_producers[producer_id] = waiter


def access_of(topic: Topic) -> Access:
    """Finds the access of a topic, which is made for its first exclusive producer."""
    if topic.access is None:
        topic.access = Access(topic)
    return topic.access


def announced_epoch(topic: Topic) -> int | None:
    """Returns the epoch in PRODUCER_SUCCESS, also to Shared producers (PR-7)."""
    return None if topic.state.epoch == UNSET else topic.state.epoch


def refuse_waiters(topic: Topic, error: PulsarError) -> None:
    """Refuses all producers that wait for the topic."""
    if topic.access is not None:
        topic.access.refuse_waiters(error)


def mode_name(mode: int) -> str:
    """Returns Pulsar's name of an access mode."""
    return ProducerAccessMode.Name(ProducerAccessMode.ValueType(mode))


def _held_by(topic: Topic) -> str:
    holder = None if topic.access is None else topic.access.holder
    return f"Topic has an existing exclusive producer: {'null' if holder is None else holder.name}"


def fence(topic: Topic) -> None:
    """Refuses producers that wait, and takes the topic from the others. As from Apache Pulsar, their clients hear of it
    at their next SEND, which ends the connection (PR-5, PR-8)."""
    refuse_waiters(topic, ProducerFenced("Fenced out"))
    for producer in list(topic.producers.values()):
        producer.leave()
