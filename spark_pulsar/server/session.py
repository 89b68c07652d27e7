"""A connection: bytes in become events, bytes out leave in one write a turn. Knows frames and no rule."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.events import (
    AcksReceived,
    CommandReceived,
    Event,
    Flaw,
    SendsReceived,
    StillReading,
    SweepReceived,
    UnknownCommandReceived,
    WritingPaused,
    WritingResumed,
)
from spark_pulsar.model.errors import MalformedFrame, UnknownCommand
from spark_pulsar.wire.frames import parse_command
from spark_pulsar.wire.messages import parse_ack_ids
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from spark_pulsar.wire.sends import (
    CHECKSUM_WRONG,
    MARKER,
    METADATA_MALFORMED,
    SHADOW,
    TRANSACTION,
    RunSplitter,
    SendRun,
    send_run,
)
from spark_pulsar.wire.sweeps import SendSweep

if TYPE_CHECKING:
    from spark_pulsar.wire.frames import Frame

    from .engine import Engine

_HIGH_WATER_BYTES: Final = 2 * 1024 * 1024
_LOW_WATER_BYTES: Final = 512 * 1024
_CLOSE_TIMEOUT_S: Final = 5.0
"""How long a peer that does not read may hold up the end of its connection."""
MAX_UNREAD_BYTES: Final = 8 * 1024 * 1024
"""What a peer may leave unread before it is not read from either. Consumers get nothing from the high water on; this is
about answers, which a peer may ask for as fast as it likes."""
TURN_WEIGHT: Final = 1_000
"""Commands of one connection that one turn takes. Publishing and acknowledging do not count: they are taken in runs."""
_HEAVY: Final = 250
_WEIGHTS: Final[Mapping[int, int]] = {
    BaseCommand.GET_TOPICS_OF_NAMESPACE: _HEAVY,
    BaseCommand.WATCH_TOPIC_LIST: _HEAVY,
    BaseCommand.GET_SCHEMA: _HEAVY,
}
"""What counts for more than one: a few bytes that are answered with up to megabytes."""

_FLAWS: Final[tuple[tuple[int, Flaw], ...]] = (
    (CHECKSUM_WRONG, "checksum"),
    (METADATA_MALFORMED, "metadata"),
    (TRANSACTION, "transaction"),
    (MARKER | SHADOW, "marker"),
)


class Connection(asyncio.Protocol):
    """One client connection of an engine."""

    __slots__ = (
        "core_pauses",
        "engine",
        "failure",
        "held",
        "is_read",
        "pieces",
        "session_id",
        "splitter",
        "transport",
        "unread_bytes",
        "weight",
        "writing_paused",
    )

    def __init__(self, engine: Engine, session_id: int, max_frame_bytes: int) -> None:
        self.engine = engine
        self.session_id = session_id
        self.splitter = RunSplitter(max_frame_bytes)
        self.transport: asyncio.Transport | None = None
        self.pieces: list[bytes | bytearray | memoryview] = []
        """What this turn sends, in order."""
        self.weight = 0
        """Of the commands that arrived last."""
        self.held: list[Event] = []
        """What arrived and is for later turns; nothing more is read meanwhile."""
        self.failure: MalformedFrame | None = None
        """What came after them and is no frame."""
        self.writing_paused = False
        self.unread_bytes = 0
        """What the peer had not taken when it was last written to, while writing is paused."""
        self.core_pauses = False
        self.is_read = True

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]
        self.transport.set_write_buffer_limits(_HIGH_WATER_BYTES, _LOW_WATER_BYTES)  # type: ignore[union-attr]
        self.engine.on_connected(self)

    def data_received(self, data: bytes) -> None:
        transport = self.transport
        if transport is None or transport.is_closing() or self.failure is not None:
            return
        self.weight = 0
        try:
            items = self.splitter.feed_sends(data)
            happened = [self._event(item) for item in items]
        except MalformedFrame as error:
            happened, self.failure = [], MalformedFrame(error.message)  # which does not hold the stack
        else:
            self.failure = self.splitter.failure
        if self.held or self.weight > TURN_WEIGHT:
            self.held += happened
            self._go_on()
            return
        if happened:
            self.engine.happen(happened)
        if self.failure is not None:
            self.engine.on_malformed(self, self.failure)

    def pause_writing(self) -> None:
        self.writing_paused = True
        self.engine.happen([WritingPaused(self.session_id)])

    def resume_writing(self) -> None:
        self.writing_paused = False
        self.unread_bytes = 0
        self.engine.happen([WritingResumed(self.session_id)])
        if self.held:
            self._go_on()
        else:
            self._read_or_not()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.held = []
        self.engine.on_lost(self)

    # Called by the engine

    def flush(self) -> None:
        """Write what this turn sends."""
        pieces, self.pieces = self.pieces, []
        transport = self.transport
        if transport is not None and not transport.is_closing():
            if self.writing_paused:
                self._note_reading(transport)
            if type(pieces[-1]) is memoryview:
                transport.writelines(pieces)  # large entries: the system gathers them, which spares a copy
            else:
                transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            if self.writing_paused:
                self.unread_bytes = transport.get_write_buffer_size()
                self._read_or_not()

    def close(self) -> None:
        """End the connection after what was written."""
        transport = self.transport
        if transport is not None:
            transport.close()
            self.engine.loop.call_later(_CLOSE_TIMEOUT_S, transport.abort)

    def abort(self) -> None:
        """End the connection now."""
        if self.transport is not None:
            self.transport.abort()

    def pause_reading(self) -> None:
        """Read no more for now."""
        self.core_pauses = True
        self._read_or_not()

    def resume_reading(self) -> None:
        """Read again."""
        self.core_pauses = False
        self._read_or_not()

    # Who asks for more than it reads

    def _go_on(self) -> None:
        """Hand on as much of what is held as one turn takes, unless the peer has yet to read what it was answered."""
        transport = self.transport
        if transport is None or transport.is_closing():
            self.held = []
            return
        if self._is_overfull():
            self._read_or_not()
            return
        count = _within(self.held, TURN_WEIGHT)
        happened, self.held = self.held[:count], self.held[count:]
        if happened:
            self.engine.happen(happened)
        self._read_or_not()
        if self.held:
            self.engine.loop.call_soon(self._go_on)  # after the turn that was just ordered
        elif self.failure is not None:
            self.engine.on_malformed(self, self.failure)

    def _is_overfull(self) -> bool:
        return self.writing_paused and self.unread_bytes > MAX_UNREAD_BYTES

    def _read_or_not(self) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        is_read = not (self.core_pauses or self.held or self._is_overfull())
        if is_read != self.is_read:
            self.is_read = is_read
            (transport.resume_reading if is_read else transport.pause_reading)()

    def _note_reading(self, transport: asyncio.Transport) -> None:
        """Who is not read from for this reason cannot answer a PING, but takes what it was sent if it is there."""
        if not self.is_read and transport.get_write_buffer_size() < self.unread_bytes:
            self.engine.happen([StillReading(self.session_id)])

    # Frames to events

    def _event(self, item: Frame | SendRun | SendSweep) -> Event:
        if type(item) is SendRun:
            return self._sends(item)
        if type(item) is SendSweep:
            return SweepReceived(self.session_id, item)
        buffer, start, end = item  # type: ignore[misc]
        ack = parse_ack_ids(buffer, start, end)
        if ack is not None and ack.ranges:
            return AcksReceived(self.session_id, ack)
        try:
            command, payload_start = parse_command(buffer, start, end)
        except UnknownCommand as error:
            return UnknownCommandReceived(self.session_id, error.command_type)
        self.weight += _WEIGHTS.get(command.type, 1)
        if command.type == BaseCommand.SEND:
            return self._sends(send_run(command, buffer, payload_start, end))
        return CommandReceived(self.session_id, command)

    def _sends(self, run: SendRun) -> Event:
        flags = run.flags
        if flags:
            for mask, flaw in _FLAWS:
                if flags & mask:
                    return SendsReceived(self.session_id, run, flaw)
        return SendsReceived(self.session_id, run)


def _within(events: list[Event], weight: int) -> int:
    """How many of these weigh no more than that, one at the least."""
    for index, event in enumerate(events):
        if type(event) is CommandReceived:
            weight -= _WEIGHTS.get(event.command.type, 1)
            if weight < 0 and index:
                return index
    return len(events)
