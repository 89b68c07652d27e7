"""A client connection: bytes in become events, bytes out leave in one write a turn. It knows frames and no rule."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.turn.events import (
    AcksReceived,
    ColumnarSendsReceived,
    CommandReceived,
    Event,
    Flaw,
    SendsReceived,
    StillReading,
    UnknownCommandReceived,
    WritingPaused,
    WritingResumed,
)
from spark_pulsar.model.errors import MalformedFrame, UnknownCommand
from spark_pulsar.model.limits import MAX_FIRST_FRAME_SIZE_BYTES
from spark_pulsar.wire.acks import parse_ack_ids
from spark_pulsar.wire.frames import parse_command
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from spark_pulsar.wire.send_runs import (
    CHECKSUM_WRONG,
    MARKER,
    METADATA_MALFORMED,
    SHADOW,
    TRANSACTION,
    ColumnarSends,
    SendRun,
)
from spark_pulsar.wire.sends import RunSplitter, send_run

if TYPE_CHECKING:
    from spark_pulsar.wire.frames import Frame

    from .engine import Engine

_HIGH_WATER_BYTES: Final = 2 * 1024 * 1024
_LOW_WATER_BYTES: Final = 512 * 1024
_CLOSE_TIMEOUT_S: Final = 5.0
"""Time that a peer which does not read may hold up the end of its connection."""
MAX_UNREAD_BYTES: Final = 8 * 1024 * 1024
"""Bytes that a peer may leave unread before it is not read from either. Consumers get nothing from the high water on;
this limit is about answers, which a peer may request as fast as it likes."""
LOOK_S: Final = 2.0
"""Interval of the checks whether a peer that is not read from for this reason takes what it was sent."""
TURN_WEIGHT: Final = 1_000
"""Commands of one connection that one turn takes. Publishing and acknowledging do not count: they are taken in runs."""
_HEAVY: Final = 250
_WEIGHTS: Final[Mapping[int, int]] = {
    BaseCommand.GET_TOPICS_OF_NAMESPACE: _HEAVY,
    BaseCommand.WATCH_TOPIC_LIST: _HEAVY,
    BaseCommand.GET_SCHEMA: _HEAVY,
}
"""Commands that count for more than one: a few bytes that are answered with up to megabytes."""

_FLAWS: Final[tuple[tuple[int, Flaw], ...]] = (
    (CHECKSUM_WRONG, "checksum"),
    (METADATA_MALFORMED, "metadata"),
    (TRANSACTION, "transaction"),
    (MARKER | SHADOW, "marker"),
)


class FirstFrame:
    """The first frame of a connection, which has a limit of its own: its sender is a stranger."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Returns all that has arrived once the frame is whole, empty before. Raises MalformedFrame when it is too
        large."""
        self._held += data
        size = 4 + int.from_bytes(self._held[:4])
        if len(self._held) >= 4 and size > MAX_FIRST_FRAME_SIZE_BYTES:
            text = f"a first frame of {size} bytes; a CONNECT has up to {MAX_FIRST_FRAME_SIZE_BYTES}"
            raise MalformedFrame(text)
        return self._held if len(self._held) >= max(size, 4) else b""


class Connection(asyncio.Protocol):
    """One client connection of an engine."""

    __slots__ = (
        "core_pauses",
        "engine",
        "failure",
        "first",
        "held",
        "is_due",
        "is_read",
        "look",
        "pieces",
        "session_id",
        "splitter",
        "transport",
        "unread_at_look_bytes",
        "unread_bytes",
        "weight",
        "writing_paused",
    )

    def __init__(self, engine: Engine, session_id: int, max_frame_bytes: int) -> None:
        self.engine = engine
        self.session_id = session_id
        self.splitter = RunSplitter(max_frame_bytes)
        self.first: FirstFrame | None = FirstFrame()
        """The first frame while it is unfinished."""
        self.transport: asyncio.Transport | None = None
        self.pieces: list[bytes | bytearray | memoryview] = []
        """Bytes that this turn sends, in order."""
        self.weight = 0
        """Weight of the commands that arrived last."""
        self.held: list[Event] = []
        """Events for later turns; nothing more is read meanwhile, so that they came in one read."""
        self.is_due = False
        """The loop is about to go on with the held events."""
        self.failure: MalformedFrame | None = None
        """Error of the bytes behind the held events, which are no frame."""
        self.writing_paused = False
        self.unread_bytes = 0
        """Bytes that the peer had not taken when it was last written to, while writing is paused."""
        self.look: asyncio.TimerHandle | None = None
        """Timer of the next check whether an overfull peer takes anything."""
        self.unread_at_look_bytes = 0
        """Bytes that it had not taken at the last check, and all that were written since."""
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
            if self.first is not None:
                data = self.first.feed(data)
                if not data:
                    return
                self.first = None
            items = self.splitter.feed_sends(data)
            happened = [self._event(item) for item in items]
        except MalformedFrame as error:
            happened, self.failure = [], MalformedFrame(error.message)  # which does not hold the stack
        else:
            self.failure = self.splitter.failure
        if self.held or self.weight > TURN_WEIGHT or (happened and self.engine.is_behind):
            self.held += happened
            self._go_on()
            return
        if happened:
            self.engine.happen(happened)
        if self.failure is not None:
            self.engine.on_malformed(self, self.failure)
        self.engine.has_read(len(data))

    def pause_writing(self) -> None:
        self.writing_paused = True
        self.engine.happen([WritingPaused(self.session_id)])

    def resume_writing(self) -> None:
        self.writing_paused = False
        self.unread_bytes = 0
        self.engine.happen([WritingResumed(self.session_id)])
        self._go_on_or_read()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._look_or_not()
        self._go_on()

    # Called by the engine

    def flush(self) -> None:
        """Writes the bytes that this turn sends."""
        pieces, self.pieces = self.pieces, []
        transport = self.transport
        if transport is not None and not transport.is_closing():
            before_bytes = transport.get_write_buffer_size() if self.writing_paused else 0
            if type(pieces[-1]) is memoryview:
                transport.writelines(pieces)  # large entries: the system gathers them, which spares a copy
            else:
                transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            if self.writing_paused:
                self.unread_bytes = transport.get_write_buffer_size()
                self.unread_at_look_bytes += self.unread_bytes - before_bytes
                self._go_on_or_read()

    def close(self) -> None:
        """Ends the connection after what was written."""
        transport = self.transport
        if transport is not None:
            transport.close()
            self.engine.loop.call_later(_CLOSE_TIMEOUT_S, transport.abort)

    def abort(self) -> None:
        """Ends the connection immediately."""
        if self.transport is not None:
            self.transport.abort()

    def pause_reading(self) -> None:
        """Stops reading for now."""
        self.core_pauses = True
        self._read_or_not()

    def resume_reading(self) -> None:
        """Reads again."""
        self.core_pauses = False
        self._read_or_not()

    # Peers that request more than they read

    def _go_on(self) -> None:
        """Hands on as many held events as one turn takes, unless the peer has yet to read its answers or the engine has
        yet to take what it was handed. Events from before the peer was gone are carried out like the rest."""
        transport = self.transport
        if self.is_due or (transport is not None and transport.is_closing()):
            return  # it goes on by itself, or once the connection is lost
        if transport is not None and self.held and self._is_overfull():
            self._read_or_not()
            return
        happened: list[Event] = []
        if self.held and not self.engine.is_behind:
            count = _within(self.held, TURN_WEIGHT)
            happened, self.held = self.held[:count], self.held[count:]
            self.engine.happen(happened)
        self._read_or_not()
        if transport is None and not self.held:
            self.engine.on_lost(self)
        elif self.held or (self.failure is not None and (happened or self.engine.is_behind)):
            self._go_on_soon()  # after the turn that was just ordered
        elif self.failure is not None:
            self.engine.on_malformed(self, self.failure)

    def _go_on_soon(self) -> None:
        if not self.is_due:
            self.is_due = True
            self.engine.loop.call_soon(self._go_on_now)

    def _go_on_now(self) -> None:
        self.is_due = False
        self._go_on()

    def _go_on_or_read(self) -> None:
        if self.held:
            self._go_on_soon()
        else:
            self._read_or_not()

    def _is_overfull(self) -> bool:
        return self.writing_paused and self.unread_bytes > MAX_UNREAD_BYTES

    def _read_or_not(self) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        self._look_or_not()
        is_read = not (self.core_pauses or self.held or self._is_overfull())
        if is_read != self.is_read:
            self.is_read = is_read
            (transport.resume_reading if is_read else transport.pause_reading)()

    def _look_or_not(self) -> None:
        transport = self.transport
        if transport is None or not self._is_overfull():
            if self.look is not None:
                self.look.cancel()
                self.look = None
        elif self.look is None:
            self.unread_at_look_bytes = transport.get_write_buffer_size()
            self.look = self.engine.loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        """Tells the core of a peer that cannot answer a PING, as it is not read from, but takes what it was sent."""
        self.look = None
        transport = self.transport
        if transport is not None and transport.get_write_buffer_size() < self.unread_at_look_bytes:
            self.engine.happen([StillReading(self.session_id)])
        self._look_or_not()

    # Frames to events

    def _event(self, item: Frame | SendRun | ColumnarSends) -> Event:
        if type(item) is SendRun:
            return self._sends(item)
        if type(item) is ColumnarSends:
            return ColumnarSendsReceived(self.session_id, item)
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
    """Counts the first events that weigh no more than this together, one at the least."""
    for index, event in enumerate(events):
        if type(event) is CommandReceived:
            weight -= _WEIGHTS.get(event.command.type, 1)
            if weight < 0 and index:
                return index
    return len(events)
