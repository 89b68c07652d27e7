"""The account of a broker at a cut: what it had promised by then, and what it had at least been asked for.

It is taken from the conversation alone. An answer that had gone out must hold; what was asked and not answered may have
been done or not; anything else was never asked and must not be there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import unquote

from spark_pulsar.wire import pulsar_api_pb2 as api

from .conversation import Rest, Said, checked_entry

Place = tuple[int, int]
"""Ledger and entry."""

TransactionKey = tuple[int, int]
"""Coordinator and number there."""

Presence = Literal["never", "maybe", "there", "gone"]
NO_PLACE: Final = 2**64 - 1
SHORT_MS: Final = 60_000
"""A transaction with less time than that is one of which clients ask for no end."""
_TOPICS: Final = "/admin/v2/persistent/"
_NAMESPACES: Final = "/admin/v2/namespaces/"


@dataclass(slots=True)
class Sent:
    """An entry that a producer sent; `place` when it has its receipt."""

    entry: bytes
    last_sequence_id: int
    transaction: TransactionKey | None = None
    place: Place | None = None


@dataclass(slots=True)
class Subscription:
    """Acknowledgements of a durable subscription.

    Attributes:
        acked: Entries that are surely acknowledged.
        asked: Entries that may be: their acknowledgement was asked for.
        acked_indexes: Entry → bit mask of the surely acknowledged indexes of its batch; `asked_indexes` likewise.
        acked_upto: Everything up to here is surely acknowledged; `asked_upto` likewise.
        is_latest: It began behind entries that it never had.
    """

    presence: Presence = "never"
    is_latest: bool = False
    acked: set[Place] = field(default_factory=set)
    asked: set[Place] = field(default_factory=set)
    acked_indexes: dict[Place, int] = field(default_factory=dict)
    asked_indexes: dict[Place, int] = field(default_factory=dict)
    acked_upto: Place = (-1, -1)
    asked_upto: Place = (-1, -1)
    is_sought: bool = False
    """A seek was asked for and not answered: nothing is sure."""

    def is_acked(self, place: Place) -> bool:
        """Tells whether an entry is surely acknowledged as a whole."""
        return not self.is_sought and (place in self.acked or place <= self.acked_upto)

    def may_be_acked(self, place: Place) -> bool:
        """Tells whether an entry may be acknowledged, in part or as a whole."""
        asked = place in self.asked or place in self.asked_indexes or place <= self.asked_upto
        return asked or self.is_sought

    def forget_sure(self) -> None:
        """Takes nothing for surely acknowledged any more."""
        self.acked.clear()
        self.acked_indexes.clear()
        self.acked_upto = (-1, -1)

    def add(self, other: Subscription) -> None:
        """Takes the acknowledgements of another account of it."""
        self.acked |= other.acked
        self.asked |= other.asked
        for mine, theirs in ((self.acked_indexes, other.acked_indexes), (self.asked_indexes, other.asked_indexes)):
            for place, bits in theirs.items():
                mine[place] = mine.get(place, 0) | bits
        self.acked_upto = max(self.acked_upto, other.acked_upto)
        self.asked_upto = max(self.asked_upto, other.asked_upto)

    def seek(self, place: Place) -> None:
        """Takes the answer of a seek to an entry: it and those after it are to come, those before are not."""
        self.is_sought = False
        self.forget_sure()
        self.asked.clear()
        self.asked_indexes.clear()
        self.acked_upto = self.asked_upto = (place[0], place[1] - 1)


@dataclass(slots=True)
class Topic:
    """What was sent to a topic, by producer and sequence id, and its subscriptions."""

    presence: Presence = "never"
    sent: dict[str, dict[int, Sent]] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    schemas_asked: int = 0
    schemas: int = 0


@dataclass(slots=True)
class Transaction:
    """A transaction that was opened.

    Attributes:
        is_short: It times out before any judge comes, and nobody ends it before.
        asked: COMMIT or ABORT, once that was asked for.
        is_committed: Its outcome, once that was answered.
        acks: Topic and subscription → what it acknowledged there.
    """

    is_short: bool
    asked: int | None = None
    is_committed: bool | None = None
    acks: dict[tuple[str, str], Subscription] = field(default_factory=dict)


@dataclass(slots=True)
class Setting:
    """The bodies that a path of REST may answer: the last that was answered, and those asked for since."""

    stored: Any = None
    asked: list[Any] = field(default_factory=list)


class Account:
    """Takes what was said, in its order."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.settings: dict[str, Setting] = {}
        self.transactions: dict[TransactionKey, Transaction] = {}
        self.receipts = 0
        self.answers = 0
        self._begin()

    def _begin(self) -> None:
        """Forgets connections and what waits for an answer on them: another broker answers from here on."""
        self._producers: dict[tuple[int, int], tuple[str, str]] = {}
        self._consumers: dict[tuple[int, int], tuple[str, str]] = {}
        self._waiting: dict[tuple[int, int], Said] = {}

    def take(self, said: Iterable[Said], upto: int) -> None:
        """Takes the conversation with one broker, up to a cut."""
        self._begin()
        for each in said:
            if each.at >= upto:
                return
            handler = getattr(self, f"_{each.kind.lower()}", None)
            if handler is not None:
                handler(each)

    def topic(self, name: str) -> Topic:
        """The topic of that name."""
        return self.topics.setdefault(name, Topic())

    # Producers

    def _producer(self, said: Said) -> None:
        topic = self.topic(said.command.topic)
        _ask_for(topic)
        topic.schemas_asked += said.command.HasField("schema")
        self._waiting[said.connection, said.command.request_id] = said

    def _producer_success(self, said: Said) -> None:
        asked = self._waiting.pop((said.connection, said.command.request_id)).command
        topic = self.topic(asked.topic)
        _confirm(topic)
        topic.schemas += asked.HasField("schema")
        self._producers[said.connection, asked.producer_id] = asked.topic, said.command.producer_name

    def _send(self, said: Said) -> None:
        topic, producer = self._producers[said.connection, said.command.producer_id]
        sent = self.topics[topic].sent.setdefault(producer, {})
        first = said.command.sequence_id
        last = max(first + said.command.num_messages - 1, said.command.highest_sequence_id)
        sent.setdefault(first, Sent(checked_entry(said.entry), last, _transaction_of(said.command)))

    def _send_receipt(self, said: Said) -> None:
        topic, producer = self._producers[said.connection, said.command.producer_id]
        place = said.command.message_id.ledgerId, said.command.message_id.entryId
        sent = self.topics[topic].sent[producer][said.command.sequence_id]
        self.receipts += 1
        if place[0] != NO_PLACE:
            assert sent.place is None, f"{topic}: {producer}/{said.command.sequence_id} was stored twice"
            sent.place = place

    # Consumers

    def _subscribe(self, said: Said) -> None:
        command = said.command
        _ask_for(self.topic(command.topic))
        if command.durable:
            subscription = self.topic(command.topic).subscriptions.setdefault(command.subscription, Subscription())
            if subscription.presence in ("never", "gone"):
                subscription.is_latest = command.initialPosition == api.CommandSubscribe.Latest
            elif subscription.presence == "maybe":
                subscription.forget_sure()  # it may be a new one of the same name
            _ask_for(subscription)
            self._consumers[said.connection, command.consumer_id] = command.topic, command.subscription
        self._waiting[said.connection, command.request_id] = said

    def _subscription(self, said: Said) -> Subscription | None:
        known = self._consumers.get((said.connection, said.command.consumer_id))
        return None if known is None else self.topics[known[0]].subscriptions[known[1]]

    def _acked_by(self, said: Said) -> Subscription | None:
        """The subscription of an ACK, or what its transaction acknowledged on it."""
        subscription, transaction = self._subscription(said), _transaction_of(said.command)
        if subscription is None or transaction is None:
            return subscription
        where = self._consumers[said.connection, said.command.consumer_id]
        return self.transactions[transaction].acks.setdefault(where, Subscription())

    def _ack(self, said: Said) -> None:
        subscription = self._acked_by(said)
        if subscription is None:
            return
        if said.command.ack_type == api.CommandAck.Cumulative:
            subscription.asked_upto = max(subscription.asked_upto, _upto(said.command.message_id[-1]))
        if said.command.ack_type != api.CommandAck.Cumulative or said.command.message_id[-1].ack_set:
            _note(said.command.message_id, subscription.asked, subscription.asked_indexes)
        if said.command.HasField("request_id"):
            self._waiting[said.connection, said.command.request_id] = said

    def _ack_response(self, said: Said) -> None:
        asked = self._waiting.pop((said.connection, said.command.request_id))
        subscription = self._acked_by(asked)
        if said.command.HasField("error") or subscription is None:
            return
        self.answers += 1
        if asked.command.ack_type == api.CommandAck.Cumulative:
            subscription.acked_upto = max(subscription.acked_upto, _upto(asked.command.message_id[-1]))
        if asked.command.ack_type != api.CommandAck.Cumulative or asked.command.message_id[-1].ack_set:
            _note(asked.command.message_id, subscription.acked, subscription.acked_indexes)

    def _seek(self, said: Said) -> None:
        subscription = self._subscription(said)
        if subscription is not None:
            subscription.is_sought = True
        self._waiting[said.connection, said.command.request_id] = said

    def _unsubscribe(self, said: Said) -> None:
        subscription = self._subscription(said)
        if subscription is not None:
            subscription.presence = "maybe"
        self._waiting[said.connection, said.command.request_id] = said

    def _success(self, said: Said) -> None:
        asked = self._waiting.pop((said.connection, said.command.request_id), None)
        if asked is None:
            return
        self.answers += 1
        if asked.kind == "SUBSCRIBE":
            topic = self.topic(asked.command.topic)
            _confirm(topic)
            if asked.command.durable:
                _confirm(topic.subscriptions[asked.command.subscription])
            return
        subscription = self._subscription(asked)
        if subscription is not None and asked.kind == "SEEK":
            subscription.seek(_place(asked.command.message_id))
        elif subscription is not None and asked.kind == "UNSUBSCRIBE":
            of_topic, name = self._consumers[asked.connection, asked.command.consumer_id]
            self.topics[of_topic].subscriptions[name] = Subscription("gone")

    # Transactions

    def _new_txn(self, said: Said) -> None:
        self._waiting[said.connection, said.command.request_id] = said

    def _new_txn_response(self, said: Said) -> None:
        asked = self._waiting.pop((said.connection, said.command.request_id)).command
        key = said.command.txnid_most_bits, said.command.txnid_least_bits
        assert key not in self.transactions, f"transaction {key} is opened twice"
        self.transactions[key] = Transaction(asked.txn_ttl_millis < SHORT_MS)
        self.answers += 1

    def _end_txn(self, said: Said) -> None:
        self.transactions[said.command.txnid_most_bits, said.command.txnid_least_bits].asked = said.command.txn_action

    def _end_txn_response(self, said: Said) -> None:
        transaction = self.transactions[said.command.txnid_most_bits, said.command.txnid_least_bits]
        if not said.command.HasField("error"):
            transaction.is_committed = transaction.asked == api.COMMIT
            self.answers += 1

    def settled(self, outcomes: Mapping[TransactionKey, bool]) -> Account:
        """The account when all transactions have ended so: with the acknowledgements of those that were committed."""
        account = copy.deepcopy(self)
        for key, transaction in account.transactions.items():
            transaction.is_committed = outcomes[key]
            for (topic, name), acks in transaction.acks.items() if transaction.is_committed else ():
                account.topics[topic].subscriptions[name].add(acks)
        return account

    def is_aborted(self, sent: Sent) -> bool:
        """Tells whether nobody may see this entry; all transactions have ended."""
        return sent.transaction is not None and not self.transactions[sent.transaction].is_committed

    # REST

    def _rest(self, said: Said) -> None:
        rest: Rest = said.command
        path = unquote(rest.path.partition("?")[0])
        if rest.method == "GET":
            return
        below = path.removeprefix(_TOPICS).split("/")
        if path.startswith(_TOPICS) and len(below) == 3:
            self._topic_by_rest(said.is_answer, rest, self.topic("persistent://" + "/".join(below)))
        elif path.startswith(_NAMESPACES) and path.count("/") == _NAMESPACES.count("/") + 1:
            return
        elif not path.endswith("/compaction"):
            self._setting(said.is_answer, rest, path)

    def _topic_by_rest(self, is_answer: bool, rest: Rest, topic: Topic) -> None:
        if not is_answer and rest.method == "PUT":
            _ask_for(topic)
        elif not is_answer:
            topic.presence = "maybe"
        elif rest.status == 204:
            self.answers += 1
            if rest.method == "PUT":
                _confirm(topic)
            else:
                topic.presence = "gone"
                topic.subscriptions.clear()

    def _setting(self, is_answer: bool, rest: Rest, path: str) -> None:
        setting = self.settings.setdefault(path, Setting())
        body = json.loads(rest.body) if rest.body else None
        if not is_answer:
            setting.asked.append(body)
        elif rest.status in (200, 204):
            self.answers += 1
            setting.stored = body
            setting.asked.remove(body)


def _transaction_of(command: Any) -> TransactionKey | None:
    if not command.HasField("txnid_least_bits"):
        return None
    return command.txnid_most_bits, command.txnid_least_bits


def _upto(message_id: Any) -> Place:
    """The last entry that a cumulative ack acknowledges as a whole."""
    ledger_id, entry_id = _place(message_id)
    return ledger_id, entry_id - 1 if message_id.ack_set else entry_id


def _place(message_id: Any) -> Place:
    return message_id.ledgerId, message_id.entryId


def _note(message_ids: Iterable[Any], whole: set[Place], indexes: dict[Place, int]) -> None:
    for message_id in message_ids:
        place = _place(message_id)
        if message_id.ack_set:
            left = sum((word & NO_PLACE) << (64 * at) for at, word in enumerate(message_id.ack_set))
            indexes[place] = indexes.get(place, 0) | (((1 << message_id.batch_size) - 1) & ~left)
        else:
            whole.add(place)


def _ask_for(what: Topic | Subscription) -> None:
    if what.presence in ("never", "gone"):
        what.presence = "maybe"


def _confirm(what: Topic | Subscription) -> None:
    what.presence = "there"
