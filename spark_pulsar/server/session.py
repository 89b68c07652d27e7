"""A connection: bytes in become events, bytes out leave in one write a turn. Knows frames and no rule."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.events import (
    AcksReceived,
    CommandReceived,
    Event,
    Flaw,
    SendsReceived,
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

_FLAWS: Final[tuple[tuple[int, Flaw], ...]] = (
    (CHECKSUM_WRONG, "checksum"),
    (METADATA_MALFORMED, "metadata"),
    (TRANSACTION, "transaction"),
    (MARKER | SHADOW, "marker"),
)


class Connection(asyncio.Protocol):
    """One client connection of an engine."""

    __slots__ = ("engine", "pieces", "session_id", "splitter", "transport")

    def __init__(self, engine: Engine, session_id: int, max_frame_bytes: int) -> None:
        self.engine = engine
        self.session_id = session_id
        self.splitter = RunSplitter(max_frame_bytes)
        self.transport: asyncio.Transport | None = None
        self.pieces: list[bytes | bytearray | memoryview] = []
        """What this turn sends, in order."""

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]
        self.transport.set_write_buffer_limits(_HIGH_WATER_BYTES, _LOW_WATER_BYTES)  # type: ignore[union-attr]
        self.engine.on_connected(self)

    def data_received(self, data: bytes) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        try:
            items = self.splitter.feed_sends(data)
            happened = [self._event(item) for item in items]
        except MalformedFrame as error:
            self.engine.on_malformed(self, error)
            return
        if happened:
            self.engine.happen(happened)
        if self.splitter.failure is not None:
            self.engine.on_malformed(self, self.splitter.failure)

    def pause_writing(self) -> None:
        self.engine.happen([WritingPaused(self.session_id)])

    def resume_writing(self) -> None:
        self.engine.happen([WritingResumed(self.session_id)])

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.engine.on_lost(self)

    # Called by the engine

    def flush(self) -> None:
        """Write what this turn sends."""
        pieces, self.pieces = self.pieces, []
        transport = self.transport
        if transport is not None and not transport.is_closing():
            if type(pieces[-1]) is memoryview:
                transport.writelines(pieces)  # large entries: the system gathers them, which spares a copy
            else:
                transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

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
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

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
