"""Events: past facts that the shell reports to the core. `Broker.handle` takes them in the order they happened.

One event may stand for a thousand entries (`SendsReceived`) or a thousand acks (`AcksReceived`): the shell recognises
those by their leading bytes. Everything else arrives as the parsed command.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.wire.acks import PlainAck
    from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
    from spark_pulsar.wire.send_runs import ColumnarSends, SendRun


@dataclass(slots=True)
class SessionOpened:
    """A connection was accepted. `session_id` is never used again."""

    session_id: int
    peer: str
    """Address of the client, `/host:port` as Pulsar writes it in stats."""
    local: str
    """`host:port` that the client connected to, as this host sees it; lookups answer with it (A4)."""


@dataclass(slots=True)
class SessionClosed:
    """The connection is gone, whoever ended it."""

    session_id: int


@dataclass(slots=True)
class CommandReceived:
    """A command other than the hot ones below, whole and with its required fields."""

    session_id: int
    command: BaseCommand


@dataclass(slots=True)
class UnknownCommandReceived:
    """A well-formed frame with a command type of another protocol version (A14)."""

    session_id: int
    command_type: int


Flaw = Literal["checksum", "metadata", "transaction", "marker"]
"""What is wrong with a SEND: its CRC32C, its metadata's size, or that it belongs to something clients may not send."""


@dataclass(slots=True)
class SendsReceived:
    """Consecutive SENDs of one producer, as `wire.sends` found them. A run with a flaw has one entry."""

    session_id: int
    run: SendRun
    flaw: Flaw | None = None

    @property
    def size_bytes(self) -> int:
        """Of the entries and what lies between them."""
        return self.run.ends[-1] - self.run.starts[0]


@dataclass(slots=True)
class ColumnarSendsReceived:
    """Consecutive SENDs of several producers, none with a flaw, as `wire.columnar_sends` found them."""

    session_id: int
    columnar_sends: ColumnarSends

    @property
    def size_bytes(self) -> int:
        """Of the entries and what lies between them."""
        return self.columnar_sends.ends[-1] - self.columnar_sends.starts[0]


@dataclass(slots=True)
class AcksReceived:
    """An ACK of whole entries, as `wire.messages` read it."""

    session_id: int
    ack: PlainAck


@dataclass(slots=True)
class WritingPaused:
    """The connection's write buffer is above its high-water mark: the peer reads more slowly than we send."""

    session_id: int


@dataclass(slots=True)
class WritingResumed:
    """The connection's write buffer has drained."""

    session_id: int


@dataclass(slots=True)
class StillReading:
    """A peer that is not read from until it has taken what it was sent has taken some of it: it is there."""

    session_id: int


@dataclass(slots=True)
class RecordsDurable:
    """The group of records of this number, and all before it, are on disk."""

    group: int


@dataclass(slots=True)
class EntriesRead:
    """Answer to ReadEntries: runs in rising order, at least one entry, from the entry that was asked for on."""

    token: int
    runs: list[EntryRun]


@dataclass(slots=True)
class SizesRead:
    """Answer to ReadSizes: bytes of each entry, 0 for what is not stored."""

    token: int
    sizes: list[int]


@dataclass(slots=True)
class ReadFailed:
    """ReadEntries or ReadSizes could not be served: the entries are gone or unreadable."""

    token: int
    reason: str


@dataclass(slots=True)
class DiskFull:
    """The disk has no space (or no permission) for more of the journal; an empty reason: it has again. With
    `is_stalled` not even what was submitted can be written before."""

    reason: str
    is_stalled: bool = False


@dataclass(slots=True)
class EntriesLost:
    """Storage found that entries, as (ledger id, first, end), cannot be read any more, and where and why."""

    spans: Sequence[tuple[int, int, int]]
    place: str
    text: str


@dataclass(slots=True)
class Requested:
    """The admin API asks for a change of state; `request` runs inside the core, at its place in the order."""

    request: Callable[[Any], None]
    """Takes the core."""


@dataclass(slots=True)
class EntriesCompacted:
    """A block of what a compaction leaves: entries `buffer[starts[i]:ends[i]]` for the compacted ledger, each with its
    source in front. `source` is that of the first; `last` is source and batch index of the last message."""

    token: int
    source: tuple[int, int]
    buffer: bytes
    starts: list[int]
    ends: list[int]
    message_counts: list[int]
    last: tuple[int, int, int]


@dataclass(slots=True)
class CompactionEnded:
    """All blocks were reported; so many messages are not among them."""

    token: int
    removed: int


@dataclass(slots=True)
class CompactionFailed:
    """The compaction could not be done; nothing more will be reported."""

    token: int
    reason: str


Event = (
    SessionOpened
    | SessionClosed
    | CommandReceived
    | UnknownCommandReceived
    | SendsReceived
    | ColumnarSendsReceived
    | AcksReceived
    | WritingPaused
    | WritingResumed
    | StillReading
    | RecordsDurable
    | EntriesRead
    | SizesRead
    | ReadFailed
    | EntriesLost
    | DiskFull
    | EntriesCompacted
    | CompactionEnded
    | CompactionFailed
    | Requested
)
