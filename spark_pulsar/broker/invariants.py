"""Invariants between any two turns. Checked after tests, and after every turn when the shell's configuration requests
it."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities.topic import NOTHING_HELD

from .topic_log import backlog_bytes

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.consumer import Consumer
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session
    from spark_pulsar.broker.entities.topic import Topic

    from .broker import Broker


TOPICS_OF_A_TURN: Final = 32
"""Number of topics that are checked after every turn, and of those that are checked beside them in rotation."""


class TurnChecks:
    """Checks after turns, which take the same time however many topics a broker has: of the sessions, of the topics
    that were loaded last, and of the other topics some after each turn, in rotation."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._next = 0

    def after_turn(self) -> None:
        """Raises AssertionError when a session or a topic of this turn contradicts itself."""
        core = self._broker.core
        _check_sessions(core)
        for topic in islice(reversed(core.topics.values()), TOPICS_OF_A_TURN):
            _check_topic(core, topic)
        older = len(core.topics) - TOPICS_OF_A_TURN
        if older <= 0:
            return
        first = 0 if self._next >= older else self._next
        self._next = min(first + TOPICS_OF_A_TURN, older)
        for topic in islice(core.topics.values(), first, self._next):
            _check_topic(core, topic)


def check(broker: Broker) -> None:
    """Raises AssertionError when the broker's state contradicts itself."""
    core = broker.core
    _check_sessions(core)
    for topic in core.topics.values():
        _check_topic(core, topic)


def _check_sessions(core: Core) -> None:
    for session in core.sessions.values():
        _check_session(core, session)
    pending = sum(session.pending_publish_bytes for session in core.sessions.values())
    assert pending <= core.pending_publish_bytes, "bytes of sessions that wait for receipts, and of all"
    for session_id in core.paused_sessions:
        assert core.sessions[session_id].reading_paused, f"session {session_id} is listed as paused and is not"


def _check_session(core: Core, session: Session) -> None:
    is_known = session.principal.role is not None
    assert is_known or not (session.connected and core.config.authentication_enabled), "a role for each client (AU-1)"
    assert session.pending_publishes >= 0
    assert session.pending_publish_bytes >= 0
    assert session.producer_rows.keys() == session.producers.keys()
    for producer_id, producer in session.producers.items():
        assert producer.producer_id == producer_id
        assert producer.topic.producers.get(producer.name) is producer, f"producer {producer.name} lost its name (PR-2)"
        assert session.producer_rows[producer_id] == producer.row, "each row is its producer's"
    for consumer_id, consumer in session.consumers.items():
        assert consumer.consumer_id == consumer_id
        assert consumer in consumer.subscription.consumers, f"consumer {consumer.name} is in no subscription"


def _check_topic(core: Core, topic: Topic) -> None:
    for name, producer in topic.producers.items():
        assert producer.name == name
        assert producer.session.session_id in core.sessions, f"producer {name} of a closed session (A6)"
    _check_access(topic)
    if topic.delays is not None:
        topic.delays.check()
    if topic.dispatch_limits is not None:
        topic.dispatch_limits.check()
    assert topic.last_add_confirmed <= topic.ledger.last_position, "confirmed entries exist (ML-5)"
    for txn_id, entries in topic.state.open_transactions.items():
        assert topic.transactions is not None, "consumers wait for its end (TX-9)"
        assert topic.transactions.firsts[txn_id] <= (entries.first() or ()), f"{txn_id} holds consumers back (TX-9)"
        assert core.state.transactions[txn_id].entries[topic.state.topic_id] is entries, f"entries of {txn_id}"
    ledger_ids = topic.ledger.ledger_ids()
    assert topic.held_ledger == NOTHING_HELD or topic.held_ledger in ledger_ids, "retention holds what exists (RET-1)"
    assert topic.ledger.size_bytes == sum(info.size_bytes for info in topic.ledger.ledgers.values()), "storageSize"
    if topic.ttl_monitor is not None or (topic.quota is not None and topic.quota.has_age):
        assert topic.check_at_bytes == 0, "every publish checks ages (TTL-1, BQ-2)"
    elif topic.quota is not None and topic.quota.has_size and not topic.quota.is_checking:
        least = backlog_bytes.least_backlog_bytes(topic)
        unseen = max(0, topic.check_at_bytes - topic.bytes_in)
        assert least + unseen <= max(topic.quota.size.limit_bytes, least + 1), "a quota is passed (BQ-1)"
    assert topic.subscription_count == len(topic.subscriptions), "subscriptions hear of new entries (ML-5)"
    for subscription in topic.subscriptions.values():
        assert (subscription.type is None) == (not subscription.consumers), "consumers fix the type (SUB-1)"
        assert subscription.is_durable == (topic.state.cursors.get(subscription.name) is subscription.cursor)
        for consumer in subscription.consumers:
            assert consumer.session.session_id in core.sessions, "consumer of a closed session (A6)"
            _check_consumer(consumer)
        if subscription.consumers:
            subscription.dispatcher.check()


def _check_access(topic: Topic) -> None:
    access = topic.access
    if access is None:
        return
    producers = list(topic.producers.values())
    assert access.holder is None or producers == [access.holder], "one producer has the topic alone (PR-4)"
    assert producers or not access.waiters, "no producer waits for a topic that is free (PR-6)"
    for waiter in access.waiters:
        assert waiter.session.waiting_producers.get(waiter.producer_id) is waiter, "a waiter is known (PR-6)"


def _check_consumer(consumer: Consumer) -> None:
    granted = consumer.permits_granted
    assert granted == consumer.permits + consumer.messages_out, (
        f"permits of {consumer.name}: granted = sent + left (SUB-4)"
    )
    pending, batches = consumer.pending, consumer.batch_messages
    extra = sum(left - 1 for entries in batches.values() for left in entries.values())
    assert consumer.unacked == pending.count() + extra, f"unacked of {consumer.name} = what it holds (SH-6)"
    subscription = consumer.subscription
    assert not pending or subscription.topic.non_persistent is None, "what is not stored is not held (NP-5)"
    cursor = subscription.cursor
    for ledger_id, first, end in pending:
        assert (ledger_id, first) > cursor.mark_delete, f"{consumer.name} holds what is acked (ACK-1)"
        assert not cursor.acked.intersects(ledger_id, first, end), f"{consumer.name} holds what is acked (ACK-1)"
    for ledger_id, entries in batches.items():
        sets = cursor.batch_sets.get(ledger_id, {})
        for entry_id, left in entries.items():
            bits = sets.get(entry_id)
            is_right = left >= 1 if bits is None else 1 <= left <= bits.bit_count()
            assert is_right, f"{consumer.name} holds what is not acked of a batch (ACK-9)"
            assert pending.intersects(ledger_id, entry_id, entry_id + 1), "a batch that is held is pending"
    if consumer.blocked:
        limit = subscription.core.policies_of(subscription.topic.name).max_unacked_per_consumer
        assert 0 < limit // 2 < consumer.unacked, f"{consumer.name} waits for acks although half is acked (SH-6)"
