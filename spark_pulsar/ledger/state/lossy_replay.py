"""Applies records after a hole in the journal: records that do not fit show the losses.

Groups are lost as a whole, so records after a hole may speak of topics that were never created, continue ledgers with a
gap, or close transactions that were never opened. A `LossyReplay` gives each record as much of its effect as it can
have, and notes for which topic something is missing. It is used only after a hole: without one, a record that does not
fit is damage. Acknowledgements of a damaged group are not believed: their entries come again (CUR-7).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any, Final, NamedTuple

from spark_pulsar.ledger.entries import EntryColumns, first_entries
from spark_pulsar.ledger.managed_ledgers.ledger import LedgerInfo
from spark_pulsar.ledger.records import InvalidRecord, Record, RecordDamaged

from .appending import EntriesAppended
from .apply import apply
from .cursors.records import CursorAcked, CursorDeleted, CursorIdle, CursorMarkDeleted, CursorReset
from .damage import DamageAccepted
from .deduplication import SequencesReached
from .delays import EntriesDelayed
from .documents import (
    GLOBAL_TOPIC_POLICIES,
    TOPIC_POLICIES,
    DocumentDeleted,
    DocumentSet,
    NamespaceDeleted,
    NamespaceSet,
)
from .durable_state import DurableState
from .ledgers import EntriesDropped, LedgerOpened, LedgerSealed, LedgersTrimmed
from .schemas import SchemasDeleted, SchemasForgotten
from .topics import PartitionedTopicDeleted, TopicDeleted, TopicTerminated
from .transactions import TransactionAcked, TransactionAckedThrough


class Loss(NamedTuple):
    """A loss of a topic: entries `first … end - 1` of a ledger, or (-1, 0, 0) something else."""

    topic_id: int
    ledger_id: int
    first: int
    end: int


class LossyReplay:
    """A state under repair. Its findings are `losses` and `strays` (records of topics, ledgers and cursors that nothing
    is known of, in words)."""

    def __init__(self, state: DurableState) -> None:
        self.state = state
        self.losses: dict[Loss, tuple[str, str]] = {}
        """With the place (`file:offset`) and the text of the damage that explains each."""
        self.strays: list[str] = []
        self.cause: tuple[str, str] = ("", "")
        """Place and text of the damage met last."""
        self._unbelieved: list[tuple[Record, tuple[str, str]]] = []
        """Records about more than one topic that are not believed, with the damage that is the cause."""

    def apply(self, record: Record) -> bool:
        """Gives the record its effect, as far as it can have one; returns whether it had any."""
        if isinstance(record, EntriesAppended) and isinstance(record.entries, EntryColumns):
            known = self._known_part(record.entries)
            if known is None:
                return False
            record = EntriesAppended(known)
        try:
            prepare = _PREPARE.get(type(record))
            if prepare is not None:
                prepare(self, record)
            apply(self.state, record)
        except (InvalidRecord, RecordDamaged) as error:
            self._stray(record, str(error))
            return False
        return True

    def believed(self, record: Record) -> Record | None:
        """Returns the part to be believed of a record whose group fails its checksum without an entry that explains it:
        None of a record that takes something away, or lets the broker do so. A new namespace is believed to exist."""
        is_new = isinstance(record, NamespaceSet) and record.name not in self.state.namespaces
        if not is_new and not isinstance(record, _TAKES_AWAY):
            return record
        if isinstance(record, _NAMED):
            what = f"{type(record).__name__} of {getattr(record, 'kind', '')} {record.name}".replace("  ", " ")
            self.strays.append(f"{what}: its group is damaged, it is not believed")
            self._unbelieved.append((record, self.cause))
        return NamespaceSet(record.name, "{}") if is_new and isinstance(record, NamespaceSet) else None

    def lose_unbelieved(self) -> None:
        """Notes the records that were not believed, at the end: topics made later are under the lost policies, too."""
        for record, cause in self._unbelieved:
            self.cause = cause
            for topic_id in self.topics_of(record):
                self.lose(topic_id)

    def lose_open_transactions(self) -> None:
        """Notes the topics of open transactions, at the end: their commits may be among the lost records, and they are
        going to be aborted."""
        for transaction in self.state.transactions.values():
            topic_ids = {*transaction.entries, *(self.state.cursor_topics[cursor_id] for cursor_id in transaction.acks)}
            for topic_id in topic_ids:
                self.lose(topic_id)

    def continues(self, record: Record) -> bool:
        """Returns whether entries are exactly the next ones of their ledgers; True for anything else."""
        if not isinstance(record, EntriesAppended):
            return True
        ledger_ids, firsts, _ = record.entries.extents()
        if any(ledger_id not in self.state.ledgers for ledger_id in ledger_ids):
            return False
        return self.state.next_entry_ids(ledger_ids) == list(firsts)

    def lose(self, topic_id: int, ledger_id: int = -1, first: int = 0, end: int = 0) -> None:
        """Notes a loss, once."""
        self.losses.setdefault(Loss(topic_id, ledger_id, first, end), self.cause)

    def topics_of(self, record: Record) -> set[int]:
        """The existing topics that a record is about."""
        state = self.state
        topic_ids = {getattr(record, "topic_id", -1), *getattr(record, "topic_ids", ())}
        topic_ids.add(state.cursor_topics.get(getattr(record, "cursor_id", -1), -1))
        ledger_ids = record.entries.extents()[0] if isinstance(record, EntriesAppended) else ()
        topic_ids.update(state.ledgers[ledger_id].topic_id for ledger_id in ledger_ids if ledger_id in state.ledgers)
        begins: tuple[str, ...] = ()
        if isinstance(record, NamespaceSet | NamespaceDeleted):
            begins = (f"persistent://{record.name}/",)
        elif isinstance(record, DocumentSet | DocumentDeleted) and record.kind in _POLICIES:
            topic_ids.update(topic.topic_id for topic in state.topics.values() if topic.name == record.name)
            begins = (f"{record.name}-partition-",)
        if begins:
            topic_ids.update(topic.topic_id for topic in state.topics.values() if topic.name.startswith(begins))
        return topic_ids & state.topics.keys()

    def _known_part(self, entries: EntryColumns) -> EntryColumns | None:
        """The entries without those of ledgers that do not exist; None when no ledger exists."""
        keep = [ledger_id in self.state.ledgers for ledger_id in entries.ledger_ids]
        if all(keep):
            return entries
        self.strays.append(f"EntriesAppended: {keep.count(False)} entries of ledgers that do not exist")
        counts = entries.message_counts
        return (
            EntryColumns(
                entries.buffer,
                list(compress(entries.ledger_ids, keep)),
                list(compress(entries.entry_ids, keep)),
                list(compress(entries.starts, keep)),
                list(compress(entries.ends, keep)),
                None if counts is None else list(compress(counts, keep)),
            )
            if any(keep)
            else None
        )

    def _stray(self, record: Record, text: str) -> None:
        topic_ids = self.topics_of(record)
        for topic_id in topic_ids:
            self.lose(topic_id)
        if not topic_ids:
            self.strays.append(f"{type(record).__name__}: {text}")

    def _skip_to(self, info: LedgerInfo, first: int) -> None:
        """Entries between the last known one and `first` were lost."""
        if first > info.entries:
            self.lose(info.topic_id, info.ledger_id, info.entries, first)
            info.entries = first
            self.state.dirty_ledgers.add(info.ledger_id)

    def _reopen(self, info: LedgerInfo) -> None:
        """Notes that a ledger stored entries after its last known one."""
        chain = self.state.topics[info.topic_id].ledger.ledger_ids()
        if info.sealed_ms is not None and chain and chain[-1] == info.ledger_id:
            self.lose(info.topic_id)
            info.sealed_ms = None

    # What must be made up for before a record can be applied

    def appended(self, record: EntriesAppended) -> None:
        """Entries may come after a gap, in each ledger."""
        for ledger_id, first in first_entries(record.entries.extents()).items():
            info = self.state.ledgers.get(ledger_id)
            if info is not None:
                self._reopen(info)
                self._skip_to(info, first)

    def opened(self, record: LedgerOpened) -> None:
        """The ledger before was sealed."""
        topic = self.state.topics.get(record.topic_id)
        current = None if topic is None else topic.ledger.current
        if current is not None:
            self.lose(record.topic_id)
            apply(self.state, LedgerSealed(record.topic_id, current.ledger_id, record.opened_ms))

    def trimmed(self, record: LedgersTrimmed) -> None:
        """Ledgers that are not known need not be trimmed."""
        topic = self.state.topics.get(record.topic_id)
        if topic is None:
            return
        known = topic.ledger.ledger_ids()
        through = max(record.ledger_ids, default=-1)
        front = tuple(ledger_id for ledger_id in known if ledger_id <= through)
        if front != record.ledger_ids:
            self.lose(record.topic_id)
            if set(front) <= set(record.ledger_ids):
                apply(self.state, LedgersTrimmed(record.topic_id, front))

    def deleted(self, record: TopicDeleted) -> None:
        """Its cursors and ledgers went before it."""
        if record.topic_id in self.state.topics:
            for part in self.state.records_to_delete_topic(record.topic_id)[:-1]:
                apply(self.state, part)


_PREPARE: Final[dict[type[Record], Callable[[LossyReplay, Any], None]]] = {
    EntriesAppended: LossyReplay.appended,
    LedgerOpened: LossyReplay.opened,
    LedgersTrimmed: LossyReplay.trimmed,
    TopicDeleted: LossyReplay.deleted,
}

_POLICIES: Final = (TOPIC_POLICIES, GLOBAL_TOPIC_POLICIES)

_TAKES_AWAY: Final = (
    CursorAcked,
    CursorMarkDeleted,
    CursorReset,
    CursorDeleted,
    CursorIdle,
    LedgersTrimmed,
    EntriesDropped,
    TopicDeleted,
    NamespaceSet,
    NamespaceDeleted,
    PartitionedTopicDeleted,
    DocumentSet,
    DocumentDeleted,
    SequencesReached,
    EntriesDelayed,
    SchemasDeleted,
    SchemasForgotten,
    TopicTerminated,
    TransactionAcked,
    TransactionAckedThrough,
    DamageAccepted,
)
"""Records that take away: after them entries are refused, not delivered or gone, or may go (policies)."""

_NAMED: Final = (NamespaceSet, NamespaceDeleted, PartitionedTopicDeleted, DocumentSet, DocumentDeleted)
"""Records that take away and are not about one topic by its id: their names identify them."""
