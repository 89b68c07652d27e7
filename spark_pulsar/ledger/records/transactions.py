"""Records of transactions (TX-17). `most` and `least` are the two numbers of a transaction's id.

A record of a transaction that is not open fits no state: the coordinator and the topics are one broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import ClassVar, Final

from .base import DeclaredRecord, Record
from .codec import RecordDamaged
from .cursors import BatchSet, CursorAcked, EntryRange

_ID: Final = Struct("<qq")


@dataclass(frozen=True, slots=True)
class TransactionOpened(DeclaredRecord):
    """A transaction is open; its number was never used before by its coordinator."""

    most: int
    least: int
    opened_ms: int
    timeout_ms: int
    owner: str
    TYPE: ClassVar[int] = 120


@dataclass(frozen=True, slots=True)
class TransactionPartitionsAdded(DeclaredRecord):
    """The client announced that it publishes to these topics in the transaction, in its own spelling."""

    most: int
    least: int
    partitions: tuple[str, ...]
    TYPE: ClassVar[int] = 121


@dataclass(frozen=True, slots=True)
class TransactionSubscriptionsAdded(DeclaredRecord):
    """The client announced that it acks on these subscriptions in the transaction: topic and name at one index."""

    most: int
    least: int
    topics: tuple[str, ...]
    subscriptions: tuple[str, ...]
    TYPE: ClassVar[int] = 122


@dataclass(frozen=True, slots=True)
class TransactionEntries(DeclaredRecord):
    """Entries `first … end - 1` of a ledger, appended just before, are the transaction's."""

    most: int
    least: int
    ledger_id: int
    first: int
    end: int
    TYPE: ClassVar[int] = 123


@dataclass(slots=True, eq=False)
class TransactionAcked(Record):
    """Entries were acked in the transaction, as ranges, and parts of batches, as sized bit sets. Body: the id, then
    that of CursorAcked."""

    most: int
    least: int
    cursor_id: int
    ranges: Sequence[EntryRange]
    batch_sets: Sequence[BatchSet] = ()
    TYPE: ClassVar[int] = 124

    def encode(self) -> bytes:
        return _ID.pack(self.most, self.least) + CursorAcked(self.cursor_id, self.ranges, self.batch_sets).encode()

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> TransactionAcked:
        try:
            most, least = _ID.unpack_from(body, at)
        except StructError as error:
            raise RecordDamaged("acks of a transaction: head is cut") from error
        acked = CursorAcked.decode(body, at + _ID.size, end)
        return cls(most, least, acked.cursor_id, acked.ranges, acked.batch_sets)


@dataclass(frozen=True, slots=True)
class TransactionAckedThrough(DeclaredRecord):
    """Everything at or before the position was acked in the transaction."""

    most: int
    least: int
    cursor_id: int
    ledger_id: int
    entry_id: int
    TYPE: ClassVar[int] = 125


@dataclass(frozen=True, slots=True)
class TransactionEnded(DeclaredRecord):
    """The transaction was committed (1) or aborted (0). Its markers, appended just before, are the entries at one index
    of the two columns."""

    most: int
    least: int
    is_committed: int
    marker_ledger_ids: tuple[int, ...]
    marker_entry_ids: tuple[int, ...]
    TYPE: ClassVar[int] = 126
