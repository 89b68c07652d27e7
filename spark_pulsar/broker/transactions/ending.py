"""The end of a transaction: commit or abort on all its topics and subscriptions, in one group of the journal that is on
disk as a whole or not at all (TX-6, TX-7). One entry on each topic marks it (TX-10), and nothing else is kept of it but
withheld entries (TX-21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.topic_log import disk_full
from spark_pulsar.ledger.state.transactions import TransactionEnded
from spark_pulsar.model.names import TopicName

from . import entries, pending_acks

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.subscription import Subscription
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.ledger.state.transactions import Transaction
    from spark_pulsar.model.errors import PulsarError

_Markers = list[tuple["Topic", "EntryRun | None"]]


def end(core: Core, transaction: Transaction, *, is_committed: bool) -> Callable[[], None]:
    """Ends a transaction; call the result once that is on disk, which lets consumers see it."""
    txn_id = transaction.txn_id
    markers: _Markers = [
        (topic, entries.append_marker(core, topic, txn_id, is_committed=is_committed))
        for topic in _topics(core, transaction)
    ]
    runs = [run for _, run in markers if run is not None]
    aborted = {} if is_committed else {topic_id: list(ranges) for topic_id, ranges in transaction.entries.items()}
    acks = [(_subscription(core, cursor_id), cursor_acks) for cursor_id, cursor_acks in transaction.acks.items()]
    concerned = {subscription: None for topic, _ in markers for subscription in topic.subscriptions.values()}
    concerned |= {subscription: None for subscription, _ in acks}
    before = [subscription.cursor.mark_delete for subscription in concerned]
    ids = tuple(run.ledger_id for run in runs), tuple(run.first_entry_id for run in runs)
    core.append(TransactionEnded(*txn_id, int(is_committed), *ids))
    for topic, run in markers:
        _pass_over(topic, run, aborted.get(topic.state.topic_id, []))
    for subscription, mark_delete in zip(concerned, before, strict=True):
        if subscription.cursor.mark_delete != mark_delete:
            subscription.dispatcher.passed()
            subscription.mark_delete_moved()
    for subscription, cursor_acks in acks:
        if is_committed:
            subscription.transactions_committed += 1
        else:
            subscription.transactions_aborted += 1
            pending_acks.free(subscription, cursor_acks)

    def visible() -> None:
        for topic, run in markers:
            entries.ended(core, topic, txn_id, run, is_committed=is_committed)

    return visible


def end_when_durable(core: Core, transaction: Transaction, *, is_committed: bool) -> None:
    """Ends a transaction; consumers see it once it is on disk."""
    core.when_durable(end(core, transaction, is_committed=is_committed))


def answer_end(
    core: Core,
    transaction: Transaction,
    reply: Callable[[], None],
    refuse: Callable[[PulsarError], None],
    *,
    is_committed: bool,
) -> None:
    """Ends a transaction; `reply`, or `refuse` while nothing can be written, gives the answer."""
    end_when_durable(core, transaction, is_committed=is_committed)
    disk_full.answer_when_durable(core, reply, refuse)


def _topics(core: Core, transaction: Transaction) -> list[Topic]:
    """Finds the topics that it was added to, or has entries on, as far as they exist."""
    names = dict.fromkeys(core.state.topics[topic_id].name for topic_id in transaction.entries)
    names |= {TopicName.parse(text).full: None for text in transaction.partitions}
    topics = (registry.find(core, TopicName.parse(name)) for name in names)
    return [topic for topic in topics if topic is not None and topic.non_persistent is None]


def _subscription(core: Core, cursor_id: int) -> Subscription:
    state = core.state.topics[core.state.cursor_topics[cursor_id]]
    topic = registry.find(core, TopicName.parse(state.name))
    assert topic is not None, "its cursor exists"
    return topic.subscriptions[core.state.cursors[cursor_id].name]


def _pass_over(topic: Topic, marker: EntryRun | None, aborted: list[tuple[int, int, int]]) -> None:
    """Lets all cursors of a topic pass over entries that no consumer gets; durable ones have, by the record (TX-11)."""
    ranges = list(aborted)
    if marker is not None:
        ranges.append((marker.ledger_id, marker.first_entry_id, marker.end_entry_id))
    if not ranges:
        return
    for subscription in topic.subscriptions.values():
        if not subscription.cursor.is_durable:
            subscription.cursor.acknowledge(ranges)
        subscription.dispatcher.expired(ranges)
