"""Effects: orders from the core to the shell. They are carried out in the order given.

The effects that are addressed to one session form one stream; the shell may write all of it at once. An effect for a
session that is gone is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_pulsar.ledger.records import Record
    from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand


class Effect:
    """Base of all effects: orders to the shell."""

    __slots__ = ()


@dataclass(slots=True)
class SendCommand(Effect):
    """Order to send one command."""

    session_id: int
    command: BaseCommand


@dataclass(slots=True)
class SendReceipts(Effect):
    """Order to send one SEND_RECEIPT per sequence id, for consecutive entries from `ledger_id:first_entry_id` on."""

    session_id: int
    producer_id: int
    ledger_id: int
    first_entry_id: int
    sequence_ids: Sequence[int]
    highest_sequence_ids: Sequence[int] | None


@dataclass(slots=True)
class SendColumnarReceipts(Effect):
    """Order to send one SEND_RECEIPT per entry of columnar SENDs; all lists are parallel."""

    session_id: int
    producer_ids: Sequence[int]
    ledger_ids: Sequence[int]
    entry_ids: Sequence[int]
    sequence_ids: Sequence[int]


@dataclass(slots=True)
class SendMessages(Effect):
    """Order to send one MESSAGE per entry, for consecutive entries, or for those of `entry_ids`; entry i is
    `buffer[starts[i]:ends[i]]`.

    `redelivery_counts` and `ack_sets` (bit sets, 1 = deliver; None = whole entry) are None when no entry has one.
    """

    session_id: int
    consumer_id: int
    ledger_id: int
    first_entry_id: int
    partition: int
    buffer: bytes
    starts: Sequence[int]
    ends: Sequence[int]
    redelivery_counts: Sequence[int] | None
    ack_sets: Sequence[int | None] | None
    consumer_epoch: int | None
    entry_ids: Sequence[int] | None = None


@dataclass(slots=True)
class AppendRecords(Effect):
    """Order to write records to the journal as one group; answered by `RecordsDurable(group)` when they are on disk."""

    group: int
    records: list[Record]


@dataclass(slots=True)
class ReadEntries(Effect):
    """Order to read entries from storage, from this one on; answered by `EntriesRead` or `ReadFailed` with the
    token."""

    token: int
    ledger_id: int
    entry_id: int
    max_entries: int
    max_bytes: int


@dataclass(slots=True)
class ReadSizes(Effect):
    """Order to read the sizes of entries `first … end - 1`; answered by `SizesRead` or `ReadFailed` with the token."""

    token: int
    ledger_id: int
    first: int
    end: int


@dataclass(slots=True)
class CloseSession(Effect):
    """Order to close the connection after all effects for it before."""

    session_id: int
    reason: str


@dataclass(slots=True)
class PauseReading(Effect):
    """Order to read nothing more from the connection (PR-15)."""

    session_id: int


@dataclass(slots=True)
class ResumeReading(Effect):
    """Order to read from the connection again."""

    session_id: int


@dataclass(slots=True)
class CompactTopic(Effect):
    """Order to find the last message of each key; answered by `EntriesCompacted` for each block of entries, the next
    one after `ContinueCompaction`, then `CompactionEnded`; or `CompactionFailed`.

    What there is to compact: entries `first … end - 1` of the compacted ledger of the time before, then of ledgers of
    the topic; all of them can be read.
    """

    token: int
    compacted: tuple[tuple[int, int, int], ...]
    ledgers: tuple[tuple[int, int, int], ...]
    keep_null_keys: bool


@dataclass(slots=True)
class ContinueCompaction(Effect):
    """Order to report the next block."""

    token: int


@dataclass(slots=True)
class StopCompaction(Effect):
    """Order to report nothing more."""

    token: int


@dataclass(slots=True)
class Authenticate(Effect):
    """Order to check credentials; answered by `SessionAuthenticated` or `AuthenticationRefused` with the number
    (AU-1)."""

    session_id: int
    number: int
    method: str
    data: bytes = field(repr=False)
    is_forwarded: bool = False
    """True for credentials that a proxy forwards: the certificate of the connection is not their client's."""


@dataclass(slots=True)
class WriteAudit(Effect):
    """Order to write a line of the audit log (SEC-20). All texts but the reason are of the client's choice."""

    peer: str
    """Address of the client, `/host:port`."""
    role: str | None
    """Role of the client; None while it has shown none that holds."""
    original: str | None
    """Role of the client behind a proxy."""
    action: str
    """Requested action: `authenticate`, `produce`, `POST`, ..."""
    resource: str
    """Thing that it is about: method of authentication, topic, path of the admin API."""
    is_allowed: bool
    reason: str = ""
    """Reason of a refusal. It holds no secret."""
