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
    from spark_pulsar.wire.protocol.acks import PlainAck
    from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
    from spark_pulsar.wire.sends.send_runs import ColumnarSends, SendRun


class Event:
    """Base of all events: past facts that the shell reports."""

    __slots__ = ()


@dataclass(slots=True)
class SessionOpened(Event):
    """A connection was accepted. `session_id` is never used again."""

    session_id: int
    peer: str
    """Address of the client, `/host:port` as Pulsar writes it in stats."""
    local: str
    """`host:port` that the client connected to, as this host sees it; lookups answer with it (A4)."""
    is_tls: bool = False


@dataclass(slots=True)
class SessionClosed(Event):
    """A connection is gone, whichever side ended it."""

    session_id: int


@dataclass(slots=True)
class SessionAuthenticated(Event):
    """Answer to Authenticate: the credentials hold."""

    session_id: int
    number: int
    role: str
    expires_ms: int | None = None
    """Wall-clock milliseconds at which the credentials expire; None: never."""


@dataclass(slots=True)
class AuthenticationRefused(Event):
    """Answer to Authenticate: the credentials do not hold. The reason has no secret; clients do not hear of it."""

    session_id: int
    number: int
    reason: str


@dataclass(slots=True)
class CommandReceived(Event):
    """A command other than the hot ones below, whole and with its required fields."""

    session_id: int
    command: BaseCommand


@dataclass(slots=True)
class UnknownCommandReceived(Event):
    """A well-formed frame with a command type of another protocol version (A14)."""

    session_id: int
    command_type: int


Flaw = Literal["checksum", "metadata", "marker"]
"""Flaw of a SEND: its CRC32C, the size of its metadata, or a kind that clients may not send."""


@dataclass(slots=True)
class SendsReceived(Event):
    """Consecutive SENDs of one producer (`wire.send_runs`). A run with a flaw has one entry."""

    session_id: int
    run: SendRun
    flaw: Flaw | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of the entries and between them."""
        return self.run.ends[-1] - self.run.starts[0]


@dataclass(slots=True)
class ColumnarSendsReceived(Event):
    """Consecutive SENDs of several producers, none with a flaw, as `wire.columnar_sends` found them."""

    session_id: int
    columnar_sends: ColumnarSends

    @property
    def size_bytes(self) -> int:
        """Bytes of the entries and between them."""
        return self.columnar_sends.ends[-1] - self.columnar_sends.starts[0]


@dataclass(slots=True)
class AcksReceived(Event):
    """An ACK of whole entries, as `wire.messages` read it."""

    session_id: int
    ack: PlainAck


@dataclass(slots=True)
class WritingPaused(Event):
    """The connection's write buffer is above its high-water mark: the peer reads more slowly than we send."""

    session_id: int


@dataclass(slots=True)
class WritingResumed(Event):
    """The connection's write buffer has drained."""

    session_id: int


@dataclass(slots=True)
class StillReading(Event):
    """A peer that is not read from has taken some of the bytes sent to it: it is alive."""

    session_id: int


@dataclass(slots=True)
class ClockCorrected(Event):
    """Correction of the machine's clock: wall-clock time is ahead of the time of turns by this many milliseconds."""

    wall_ahead_ms: int


@dataclass(slots=True)
class RecordsDurable(Event):
    """The group of records of this number, and all before it, are on disk."""

    group: int


@dataclass(slots=True)
class EntriesRead(Event):
    """Answer to ReadEntries: runs in rising order, at least one entry, from the requested entry on."""

    token: int
    runs: list[EntryRun]


@dataclass(slots=True)
class SizesRead(Event):
    """Answer to ReadSizes: bytes of each entry, 0 for one that is not stored."""

    token: int
    sizes: list[int]


@dataclass(slots=True)
class ReadFailed(Event):
    """ReadEntries or ReadSizes could not be served: the entries are gone or unreadable."""

    token: int
    reason: str


@dataclass(slots=True)
class DiskFull(Event):
    """The disk takes no more of the journal, for lack of space or permission; with an empty reason it does again. With
    `is_stalled` not even records submitted before can be written."""

    reason: str
    is_stalled: bool = False


@dataclass(slots=True)
class DiskHangs(Event):
    """An operation that receipts wait for does not return; with an empty reason it has."""

    reason: str


@dataclass(slots=True)
class EntriesLost(Event):
    """Storage lost entries, as (ledger id, first, end), and says where and why."""

    spans: Sequence[tuple[int, int, int]]
    place: str
    text: str


@dataclass(slots=True)
class Requested(Event):
    """The admin API requests a change of state; `request` runs inside the core, at its place in the order."""

    request: Callable[[Any], None]
    """Call that takes the core."""


@dataclass(slots=True)
class EntriesCompacted(Event):
    """A block of a compaction's entries: `buffer[starts[i]:ends[i]]` for the compacted ledger, each with its source in
    front. `source` is that of the first; `last` is source and batch index of the last message."""

    token: int
    source: tuple[int, int]
    buffer: bytes
    starts: list[int]
    ends: list[int]
    message_counts: list[int]
    last: tuple[int, int, int]


@dataclass(slots=True)
class CompactionEnded(Event):
    """All blocks of a compaction were reported; `removed` messages are not among them."""

    token: int
    removed: int


@dataclass(slots=True)
class CompactionFailed(Event):
    """A compaction failed; nothing more will be reported."""

    token: int
    reason: str
