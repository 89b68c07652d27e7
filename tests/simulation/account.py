"""The account: what a topic's log and its subscriptions must look like, as plain sets, without the broker's code.

It is changed by postings, small tuples `(method, arguments…)`. The judge keeps two accounts: one with every posting,
and one with those whose group is on disk; after a crash the postings that survived are all there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from .transactions import Pending, Transaction, TransactionPostings, TxnId

Place = tuple[int, int]
"""(ledger id, entry id)."""

Posting = tuple[Any, ...]


class Item(NamedTuple):
    """A message of a batch that can be read."""

    key: str | None
    payload: bytes
    is_gone: bool = False
    """True when a compaction took the message out."""


@dataclass(slots=True, eq=False)
class Sent:
    """One entry that a producer sent, perhaps several times."""

    topic: str
    producer: str
    number: int
    """Counts the producer's entries from 0, whatever became of them."""
    sequence_id: int
    count: int
    """Messages in it."""
    publish_ms: int
    entry: bytes
    highest_sequence_id: int | None = None
    key: str | None = None
    sticky_key: bytes = b""
    """Sticky key: decides which Key_Shared consumer gets the entry (KS-2)."""
    deliver_at_ms: int = 0
    """Shared and Key_Shared subscriptions do not get it before; 0: it is not delayed (DEL-1)."""
    items: tuple[Item, ...] = ()
    """The messages of a batch that can be read."""
    is_encrypted: bool = False
    """True when the entry names its encryption keys (PR-12)."""
    transaction: TxnId | None = None
    """Transaction that it is sent in, or that a marker ends."""
    is_marker: bool = False
    """True when the broker made it to end a transaction (TX-10)."""

    @property
    def full(self) -> int:
        """The bit set of a batch of which nothing is acked."""
        return (1 << self.count) - 1

    @property
    def owner(self) -> tuple[str, str]:
        """Topic and producer."""
        return self.topic, self.producer

    def __repr__(self) -> str:
        return f"{self.producer}#{self.number}"


class Subscription:
    """Acked entries of one durable subscription. Only entries that are stored are spoken of."""

    __slots__ = ("acked", "bits", "pending", "redelivered")

    def __init__(self) -> None:
        self.acked: set[Place] = set()
        self.bits: dict[Place, int] = {}
        """Batches acked in part: 1 = still unacked."""
        self.redelivered: dict[Place, int] = {}
        self.pending: dict[TxnId, Pending] = {}
        """Acks in open transactions (TX-12)."""

    def copy(self) -> Subscription:
        """Makes an independent copy."""
        twin = Subscription()
        twin.acked, twin.bits, twin.redelivered = set(self.acked), dict(self.bits), dict(self.redelivered)
        twin.pending = {txn_id: each.copy() for txn_id, each in self.pending.items()}
        return twin

    def hidden(self) -> set[Place]:
        """Lists entries of which everything that is not acked is pending: nobody is sent them (TX-12)."""
        found: set[Place] = set()
        for each in self.pending.values():
            found |= each.whole
            found.update(place for place in each.parts if self.left_of(place) == 0)
        return found - self.acked

    def left_of(self, place: Place) -> int | None:
        """Returns the messages of a batch that are neither acked nor pending, as bits; None when that is all of it."""
        left = self.bits.get(place)
        for each in self.pending.values():
            bits = each.parts.get(place)
            if bits is not None:
                left = bits if left is None else left & bits
        return left

    def forget(self, place: Place) -> None:
        """The entry is gone."""
        self.acked.discard(place)
        self.bits.pop(place, None)
        self.redelivered.pop(place, None)


@dataclass(slots=True)
class Ledger:
    """One ledger as the account sees it."""

    opened_ms: int
    sealed_ms: int | None = None
    size_bytes: int = 0
    """Bytes of all entries of the ledger."""
    entries: int = 0
    """Count of all entries of the ledger."""


class Topic:
    """The log of one topic and its durable subscriptions."""

    __slots__ = (
        *("heads", "horizon", "is_terminated", "ledgers", "log", "stored", "subscriptions", "view"),
        *("open", "withheld"),
    )

    def __init__(self) -> None:
        self.log: dict[Place, Sent] = {}
        """Readable entries, rising."""
        self.ledgers: dict[int, Ledger] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.stored: set[tuple[str, int]] = set()
        """(producer, number) of what was stored since the topic de-duplicates, also if it was trimmed meanwhile."""
        self.heads: dict[str, int] = {}
        """The highest number stored of each producer, also in topics of the same name before."""
        self.is_terminated = False
        self.horizon: Place | None = None
        """The last entry that a compaction looked at; None while nothing is kept for one."""
        self.view: dict[Place, Sent] = {}
        """Entries that compaction left up to the horizon, also those that are trimmed meanwhile."""
        self.open: dict[TxnId, set[Place]] = {}
        """Entries of open transactions."""
        self.withheld: set[Place] = set()
        """Entries that nobody gets: those of aborted transactions, and markers (TX-10, TX-11)."""

    def copy(self) -> Topic:
        """Makes an independent copy."""
        twin = Topic()
        twin.log, twin.stored, twin.heads = dict(self.log), set(self.stored), dict(self.heads)
        twin.horizon, twin.view, twin.is_terminated = self.horizon, self.view, self.is_terminated
        twin.ledgers = {number: replace(each) for number, each in self.ledgers.items()}
        twin.subscriptions = {name: each.copy() for name, each in self.subscriptions.items()}
        twin.open = {txn_id: set(places) for txn_id, places in self.open.items()}
        twin.withheld = set(self.withheld)
        return twin

    def first_open(self) -> Place | None:
        """Finds the first entry of an open transaction: nobody gets it, nor what is behind it (TX-9)."""
        return min((min(places) for places in self.open.values()), default=None)

    def add(self, place: Place, sent: Sent) -> None:
        """Adds an entry to the log."""
        self.log[place] = sent
        ledger = self.ledgers[place[0]]
        ledger.size_bytes += len(sent.entry)
        ledger.entries += 1

    def lose_ledger(self, ledger_id: int) -> None:
        """Takes the entries of a ledger that is gone out of transactions (TX-26)."""
        self.withheld = {place for place in self.withheld if place[0] != ledger_id}
        left = {txn_id: {place for place in places if place[0] != ledger_id} for txn_id, places in self.open.items()}
        self.open = {txn_id: places for txn_id, places in left.items() if places}

    def unacked(self, name: str) -> list[Place]:
        """Lists the unacknowledged entries of a subscription, in order."""
        acked = self.subscriptions[name].acked
        return [place for place in self.log if place not in acked]


@dataclass(slots=True)
class Account(TransactionPostings):
    """All topics by name, and the postings that change them."""

    topics: dict[str, Topic] = field(default_factory=dict)
    ledger_topics: dict[int, str] = field(default_factory=dict)
    cursors: dict[int, tuple[str, str]] = field(default_factory=dict)
    """(topic, subscription) by cursor id."""
    topic_names: dict[int, str] = field(default_factory=dict)
    policies: dict[tuple[str | None, str], Any] = field(default_factory=dict)
    """Values by topic (None: the namespace) and member."""
    partition_counts: dict[str, int] = field(default_factory=dict)
    """Partitioned topics, and how many partitions they have."""
    ever: set[tuple[str, str, int]] = field(default_factory=set)
    """(topic, producer, number) of all that was ever stored, also in a topic that was deleted."""
    dead_ledgers: set[int] = field(default_factory=set)
    """Ledgers that are gone."""
    past_heads: dict[str, dict[str, int]] = field(default_factory=dict)
    """`Topic.heads` of topics that were deleted."""
    compacting: dict[int, tuple[int, list[tuple[Place, bytes]]]] = field(default_factory=dict)
    """Compacted ledgers that are being written: the topic's id, places and entries."""
    schemas: dict[str, list[bytes | None]] = field(default_factory=dict)
    """Definitions by name and version; None: deleted, or the mark of that."""
    idle_since_ms: dict[tuple[str, str], int | None] = field(default_factory=dict)
    """Time since when a subscription is unused; None: it is in use."""
    transactions: dict[TxnId, Transaction] = field(default_factory=dict)
    """Open transactions."""
    ended: dict[TxnId, bool] = field(default_factory=dict)
    """Ended transactions, and whether they were committed."""

    def copy(self) -> Account:
        """Makes an independent copy."""
        return Account(
            {name: topic.copy() for name, topic in self.topics.items()},
            dict(self.ledger_topics),
            dict(self.cursors),
            dict(self.topic_names),
            dict(self.policies),
            dict(self.partition_counts),
            set(self.ever),
            set(self.dead_ledgers),
            dict(self.past_heads),
            {number: (topic_id, list(entries)) for number, (topic_id, entries) in self.compacting.items()},
            {name: list(versions) for name, versions in self.schemas.items()},
            dict(self.idle_since_ms),
            {txn_id: each.copy() for txn_id, each in self.transactions.items()},
            dict(self.ended),
        )

    def post(self, posting: Posting) -> None:
        """Changes the account."""
        getattr(self, posting[0])(*posting[1:])

    # Postings

    def policy_set(self, topic: str | None, member: str, value: Any) -> None:
        self.policies[topic, member] = value

    def topic_created(self, topic_id: int, name: str) -> None:
        topic = self.topics[name] = Topic()
        topic.heads = dict(self.past_heads.get(name, {}))
        self.topic_names[topic_id] = name

    def policies_forgotten(self, topic: str) -> None:
        for key in [each for each in self.policies if each[0] == topic]:
            del self.policies[key]

    def partitioned(self, name: str, partitions: int | None) -> None:
        if partitions is None:
            self.partition_counts.pop(name, None)
        else:
            self.partition_counts[name] = partitions

    def topic_deleted(self, topic_id: int) -> None:
        name = self.topic_names.pop(topic_id)
        self.past_heads[name] = self.topics.pop(name).heads

    def terminated(self, name: str) -> None:
        self.topics[name].is_terminated = True

    def ledger_opened(self, topic_id: int, ledger_id: int, now_ms: int) -> None:
        name = self.topic_names[topic_id]
        self.ledger_topics[ledger_id] = name
        self.topics[name].ledgers[ledger_id] = Ledger(now_ms)

    def ledger_sealed(self, ledger_id: int, now_ms: int) -> None:
        self.topics[self.ledger_topics[ledger_id]].ledgers[ledger_id].sealed_ms = now_ms

    def stored(self, place: Place, sent: Sent, is_noted: bool) -> None:
        topic = self.topics[sent.topic]
        topic.add(place, sent)
        self.ever.add((sent.topic, sent.producer, sent.number))
        if is_noted:
            topic.stored.add((sent.producer, sent.number))
        topic.heads[sent.producer] = max(topic.heads.get(sent.producer, -1), sent.number)

    def sequences_forgotten(self, name: str, producers: tuple[str, ...]) -> None:
        topic = self.topics[name]
        topic.stored = {each for each in topic.stored if producers and each[0] not in producers}

    def gone(self, ledger_id: int, before: int | None) -> None:
        """Entries of a ledger below `before`, or the whole ledger, are not readable any more."""
        topic = self.topics[self.ledger_topics[ledger_id]]
        places = [place for place in topic.log if place[0] == ledger_id and (before is None or place[1] < before)]
        for place in places:
            del topic.log[place]
            for subscription in topic.subscriptions.values():
                subscription.forget(place)
        if before is None:
            topic.lose_ledger(ledger_id)
            topic.ledgers.pop(ledger_id, None)
            self.dead_ledgers.add(ledger_id)

    def subscribed(self, cursor_id: int, topic_id: int, name: str, mark: Place) -> None:
        topic_name = self.topic_names[topic_id]
        self.cursors[cursor_id] = (topic_name, name)
        self.topics[topic_name].subscriptions[name] = Subscription()
        self.moved(topic_name, name, mark)

    def unsubscribed(self, cursor_id: int) -> None:
        topic_name, name = self.cursors.pop(cursor_id)
        self.idle_since_ms.pop((topic_name, name), None)
        del self.topics[topic_name].subscriptions[name]

    def acked(self, topic_name: str, name: str, places: Iterable[Place]) -> None:
        topic = self.topics[topic_name]
        subscription = topic.subscriptions[name]
        for place in places:
            if place in topic.log and place not in subscription.acked:
                subscription.forget(place)
                subscription.acked.add(place)

    def acked_through(self, topic_name: str, name: str, last: Place) -> None:
        self.acked(topic_name, name, [place for place in self.topics[topic_name].log if place <= last])

    def acked_in_part(self, topic_name: str, name: str, place: Place, bits: int) -> None:
        topic = self.topics[topic_name]
        subscription = topic.subscriptions[name]
        sent = topic.log.get(place)
        if sent is None or sent.count == 1 or place in subscription.acked:
            return
        left = subscription.bits.get(place, sent.full) & bits
        if left:
            subscription.bits[place] = left
        else:
            self.acked(topic_name, name, [place])

    def moved(self, topic_name: str, name: str, mark: Place) -> None:
        """Everything up to `mark` is acked and nothing else."""
        topic = self.topics[topic_name]
        subscription = topic.subscriptions[name]
        subscription.acked = {place for place in topic.log if place <= mark or place in topic.withheld}
        subscription.bits.clear()
        subscription.redelivered.clear()

    def redelivered(self, topic_name: str, name: str, places: Iterable[Place]) -> None:
        topic = self.topics[topic_name]
        subscription = topic.subscriptions[name]
        for place in places:
            if place in topic.log and place not in subscription.acked:
                subscription.redelivered[place] = subscription.redelivered.get(place, 0) + 1

    def schema_added(self, name: str, data: bytes) -> None:
        self.schemas.setdefault(name, []).append(data)

    def schemas_deleted(self, name: str) -> None:
        self.schemas[name] = [None] * (len(self.schemas[name]) + 1)

    def schemas_forgotten(self, name: str) -> None:
        self.schemas.pop(name, None)

    def used(self, key: tuple[str, str], idle_since_ms: int | None) -> None:
        self.idle_since_ms[key] = idle_since_ms

    def compaction_prepared(self, topic_id: int, horizon: Place) -> None:
        self.topics[self.topic_names[topic_id]].horizon = horizon

    def compaction_begun(self, topic_id: int, ledger_id: int) -> None:
        self.compacting[ledger_id] = (topic_id, [])

    def compaction_went_on(self, ledger_id: int, entries: list[tuple[Place, bytes]]) -> None:
        self.compacting[ledger_id][1].extend(entries)

    def compaction_dropped(self, topic_id: int) -> None:
        self.compacting = {number: each for number, each in self.compacting.items() if each[0] != topic_id}

    def compacted(self, topic_id: int, ledger_id: int, horizon: Place, view: dict[Place, Sent]) -> None:
        del self.compacting[ledger_id]
        topic = self.topics[self.topic_names[topic_id]]
        topic.horizon, topic.view = horizon, view

    def compaction_forgotten(self, topic_id: int) -> None:
        self.compaction_dropped(topic_id)
        topic = self.topics[self.topic_names[topic_id]]
        topic.horizon, topic.view = None, {}
