"""Termination of a topic: it takes no more entries, and consumers hear when they have acked the last one (TN-13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities import exclusive_access
from spark_pulsar.broker.entities import producer as producers
from spark_pulsar.ledger.state.topics import TopicTerminated as TerminatedRecord
from spark_pulsar.model.errors import TopicTerminated
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import commands

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic

_LEAST_VERSION: Final = 9
_DEAF_CLIENTS: Final = ("Pulsar-CPP", "Pulsar-Go", "Pulsar Go", "Pulsar-Node")
"""Clients that do not know REACHED_END_OF_TOPIC and drop their connection, with all that is on it (TN-13).
The C++ client is Python's and Node's too."""


def terminate(core: Core, topic: Topic) -> Position:
    """Terminates a topic; returns its last entry, in its last ledger -1 when there never was one. Again: nothing
    happens. Producers are closed when entries that they sent before are answered; subscriptions go on, and the last
    ledger stays for those to come."""
    if not topic.state.is_terminated:
        core.append(TerminatedRecord(topic.state.topic_id))
        topic.end_group = core.group_of_now
        exclusive_access.refuse_waiters(topic, _error())
        for producer in list(topic.producers.values()):
            producers.disconnect_after_receipts(core, producer)
        core.when_durable(lambda: _notify_finished(core, topic))
    return last_position(topic)


def last_position(topic: Topic) -> Position:
    """Returns the last entry of a topic; entry -1 of its ledger when there never was one."""
    current = topic.ledger.current
    if not topic.ledger.total_entries and current is not None:
        return Position(current.ledger_id, -1)
    return topic.ledger.last_position


def admit_producer(topic: Topic) -> None:
    """Refuses, with TopicTerminated, a producer of a terminated topic."""
    if topic.state.is_terminated:
        raise _error()


def notify_if_all_acked(core: Core, subscription: Subscription) -> None:
    """Notifies the consumers of a subscription that acked all of a terminated topic. The end is on disk before they
    hear of it: they stop to listen."""
    topic = subscription.topic

    def notify() -> None:
        if _has_all(subscription):
            for consumer in subscription.consumers:
                if consumer.ready:
                    _send_end(core, consumer)

    if topic.state.is_terminated and _has_all(subscription):
        core.when_group_durable(topic.end_group, notify)


def joined(core: Core, consumer: Consumer) -> None:
    """Notifies a consumer that has joined when it has nothing to wait for."""
    subscription = consumer.subscription

    def notify() -> None:
        if _has_all(subscription) and consumer in subscription.consumers:
            _send_end(core, consumer)

    if subscription.topic.state.is_terminated and _has_all(subscription):
        core.when_group_durable(subscription.topic.end_group, notify)


def _notify_finished(core: Core, topic: Topic) -> None:
    for subscription in topic.subscriptions.values():
        notify_if_all_acked(core, subscription)


def _has_all(subscription: Subscription) -> bool:
    return subscription.cursor.backlog() == 0


def _send_end(core: Core, consumer: Consumer) -> None:
    if _listens(consumer.session):
        core.send(consumer.session, commands.reached_end_of_topic(consumer.consumer_id))


def _listens(session: Session) -> bool:
    return session.protocol_version >= _LEAST_VERSION and not session.client_version.startswith(_DEAF_CLIENTS)


def _error() -> TopicTerminated:
    return TopicTerminated("Topic was already terminated")
