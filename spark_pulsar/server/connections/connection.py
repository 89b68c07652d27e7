"""A client connection: bytes in become events, bytes out leave in one write a turn. It knows frames and no rule; frames
behind a malformed one are dropped (A16)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from google.protobuf.message import DecodeError

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
from spark_pulsar.server.sockets import peer_text
from spark_pulsar.wire.protocol.acks import parse_ack_ids
from spark_pulsar.wire.protocol.frames import Frame, parse_request
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand
from spark_pulsar.wire.sends.run_splitter import RunSplitter, send_run
from spark_pulsar.wire.sends.send_runs import (
    CHECKSUM_WRONG,
    MARKER,
    METADATA_MALFORMED,
    SHADOW,
    ColumnarSends,
    SendRun,
)

from . import rotation, turn_budget
from .connection_memory import UNCOUNTED_BYTES
from .tls_connection import client_certificate

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_pulsar.model.errors import PulsarError
    from spark_pulsar.wire.sends.run_splitter import Item

    from .connection_memory import ConnectionMemory

_HIGH_WATER_BYTES: Final = 2 * 1024 * 1024
"""Unread bytes from which on consumers of a connection get nothing (SH-9)."""
_LOW_WATER_BYTES: Final = UNCOUNTED_BYTES // 4
"""Unread bytes down to which they get nothing then. The system's own buffer is full that long."""
_ITEM_BYTES: Final = 128
"""Memory of a held item, roughly."""
_CLOSE_TIMEOUT_S: Final = 5.0
"""Time that a peer which does not read may hold up the end of its connection."""
MAX_UNREAD_BYTES: Final = 8 * 1024 * 1024
"""Bytes that a peer may leave unread before it is not read from either. Consumers get nothing from the high water on;
this limit is about answers, which a peer may request as fast as it likes."""
PROGRESS_CHECK_S: Final = 2.0
"""Interval of the checks whether a peer that is not read from for this reason receives its output."""

_FLAWS: Final[tuple[tuple[int, Flaw], ...]] = (
    (CHECKSUM_WRONG, "checksum"),
    (METADATA_MALFORMED, "metadata"),
    (MARKER | SHADOW, "marker"),
)


class FirstFrames:
    """The frames of a connection up to its CONNECT, which have a limit of their own: their sender is a stranger
    (SEC-26)."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Returns the frames that are whole, and True once CONNECT is among them, with all behind it. Raises
        MalformedFrame for a frame that is too large."""
        held = self._held + data
        start = 0
        while len(held) - start >= 4:
            size = 4 + int.from_bytes(held[start : start + 4])
            if size > MAX_FIRST_FRAME_SIZE_BYTES:
                text = f"a first frame of {size} bytes; a CONNECT has up to {MAX_FIRST_FRAME_SIZE_BYTES}"
                raise MalformedFrame(text)
            if len(held) - start < size:
                break
            if _is_connect(held[start : start + size]):
                self._held = b""
                return held, True
            start += size
        self._held = held[start:]
        return held[:start], False


def _is_connect(frame: bytes) -> bool:
    """Returns whether a frame is a CONNECT, or none at all, which others are to find out."""
    try:
        return BaseCommand.FromString(frame[8 : 8 + int.from_bytes(frame[4:8])]).type == BaseCommand.CONNECT
    except DecodeError:
        return True


class ConnectionOwner(Protocol):
    """The engine that connections belong to: the members that a connection uses."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of all connections."""

    @property
    def memory(self) -> ConnectionMemory:
        """The budget for bytes that connections hold."""

    @property
    def room_us(self) -> int:
        """Time left in the next turn for events that are handed over at once."""

    @property
    def is_busy(self) -> bool:
        """Returns whether this turn has enough to do, so that connections wait with the bytes already read."""

    @property
    def is_stopped(self) -> bool:
        """Returns whether the engine has ended."""

    def happen(self, happened: list[Event]) -> None:
        """Adds events to this turn."""

    def happen_now(self, happened: list[Event], spent_us: int) -> None:
        """Adds events that are not to wait for other turns; they take about this time."""

    def wait(self, connection: Connection, *, is_light: bool) -> None:
        """Puts a connection into the rotation, whose events are for later turns."""

    def has_read(self, size_bytes: int) -> None:
        """Counts bytes read from connections."""

    def on_connected(self, connection: Connection) -> None:
        """Opens the session of a new connection, or ends the connection when there is no room."""

    def on_lost(self, connection: Connection) -> None:
        """Ends the session of a connection that is gone."""

    def on_malformed(self, connection: Connection, error: PulsarError) -> None:
        """Ends a connection whose bytes are no frame."""


class Connection(asyncio.Protocol):
    """One client connection of an engine."""

    __slots__ = (
        "arrived",
        "cancel_check",
        "core_pauses",
        "engine",
        "failure",
        "first",
        "held",
        "held_buffer_bytes",
        "is_counted",
        "is_pending",
        "is_read",
        "is_served",
        "is_waiting",
        "may_be_read",
        "may_get_messages",
        "pieces",
        "progress_check",
        "session_id",
        "spent_us",
        "splitter",
        "transport",
        "unread_at_check_bytes",
        "unread_bytes",
        "writing_paused",
    )

    def __init__(self, engine: ConnectionOwner, session_id: int, max_frame_bytes: int) -> None:
        self.engine = engine
        self.session_id = session_id
        self.splitter = RunSplitter(max_frame_bytes)
        self.first: FirstFrames | None = FirstFrames()
        """Frames before the handshake; None from CONNECT on."""
        self.transport: asyncio.Transport | None = None
        self.pieces: list[bytes | bytearray | memoryview] = []
        """Bytes that this turn sends, in order."""
        self.spent_us = 0
        """Time that the events last handed over take, as estimated."""
        self.arrived = b""
        """Bytes for later turns, not yet cut into frames. Nothing more is read meanwhile."""
        self.held: list[Item] = []
        """Frames and SENDs for later turns, in front of those bytes."""
        self.is_waiting = False
        """Membership in the rotation of the engine: it waits for its part of a turn."""
        self.failure: MalformedFrame | None = None
        """Error of the bytes behind the held items, which are no frame."""
        self.writing_paused = False
        self.unread_bytes = 0
        """Bytes that the peer had not taken when it was last written to, while writing is paused."""
        self.progress_check: asyncio.TimerHandle | None = None
        """Timer of the next check whether an overfull peer takes anything."""
        self.unread_at_check_bytes = 0
        """Bytes that it had not taken at the last check, and all that were written since."""
        self.core_pauses = False
        self.is_read = True
        self.is_served = True
        """The core may send messages."""
        self.held_buffer_bytes = 0
        """Bytes that the held items are cut from."""
        self.is_counted = False
        """The memory of connections has a share for what arrived."""
        self.cancel_check: Callable[[], None] = lambda: None
        """Cancels the check of its credentials that still waits."""
        self.is_pending = True
        """The handshake is not done."""
        self.may_be_read = self.may_get_messages = True
        """There is memory for it."""

    # Called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]
        self.transport.set_write_buffer_limits(UNCOUNTED_BYTES, _LOW_WATER_BYTES)  # type: ignore[union-attr]
        self.engine.on_connected(self)

    def data_received(self, data: bytes) -> None:
        transport = self.transport
        if transport is None or transport.is_closing() or self.failure is not None:
            return
        try:
            if self.first is not None:
                data, is_connect = self.first.feed(data)
                if is_connect:
                    self.first = None
                if not data:
                    return
        except MalformedFrame as error:
            self.failure = MalformedFrame(error.message)  # which does not hold the stack
            self.engine.on_malformed(self, self.failure)
            return
        if self.engine.is_busy or self._has_more():
            self.arrived = self.arrived + data if self.arrived else data
            self._wait(is_light=len(data) <= rotation.LIGHT_BYTES)
            self._count_received()
            return
        self._split(data)
        self.engine.happen_now(self._events(self.engine.room_us), self.spent_us)
        if self.held or self.is_counted or self.splitter.held_bytes > UNCOUNTED_BYTES:
            self._count_received()
        if self._has_more():
            self._wait()
        elif self.failure is not None:
            self.engine.on_malformed(self, self.failure)
        self.engine.has_read(len(data))

    def pause_writing(self) -> None:
        self.writing_paused = True  # by `flush`, which counts

    def resume_writing(self) -> None:
        self.writing_paused = False
        self.unread_bytes = 0
        self.engine.memory.unread(self, 0)
        self._update_delivery()
        self._wait_or_update_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self.engine.memory.release(self)
        self._schedule_progress_check()
        if self.engine.is_stopped:
            self.held, self.arrived = [], b""
        if self._has_more():
            self._wait()  # what came before the peer was gone is carried out
        elif not self.is_waiting:
            self.engine.on_lost(self)

    # Called by the engine

    def client_certificate(self) -> bytes | None:
        """Returns the certificate of the client in DER form, if TLS has verified it."""
        return None if self.transport is None else client_certificate(self.transport)

    def flush(self) -> None:
        """Writes the bytes that this turn sends."""
        pieces, self.pieces = self.pieces, []
        transport = self.transport
        if transport is not None and not transport.is_closing():
            before_bytes = transport.get_write_buffer_size() if self.writing_paused else 0
            memory = self.engine.memory
            if type(pieces[-1]) is memoryview and memory.unread_bytes <= memory.few_bytes:
                transport.writelines(pieces)  # large entries: the system gathers them, which spares a copy
            else:
                transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            if self.writing_paused:
                self.unread_bytes = transport.get_write_buffer_size()
                self.unread_at_check_bytes += self.unread_bytes - before_bytes
                memory.unread(self, self.unread_bytes)
                self._update_delivery()
                self._wait_or_update_reading()

    def hand_over(self, room_us: int) -> list[Event]:
        """Hands over events of about this time in its part of a turn. Afterwards it still waits, for its next part;
        or it is read again; or it waits for its peer, which has yet to read its answers."""
        self.is_waiting, self.spent_us = False, 0
        transport = self.transport
        if transport is not None and (transport.is_closing() or (self._has_more() and self._is_overfull())):
            self._update_reading()
            return []
        if self.arrived and not self.held:
            data, self.arrived = self.arrived, b""
            self._split(data)
        happened = self._events(room_us - self.spent_us)
        if self._has_more():
            self.is_waiting = True
        elif transport is None:
            self.engine.on_lost(self)
        elif self.failure is not None:
            self.engine.on_malformed(self, self.failure)
        else:
            self._update_reading()
        if self.transport is not None and (self.is_counted or self.splitter.held_bytes > UNCOUNTED_BYTES):
            self._count_received()
        return happened

    def close(self) -> None:
        """Ends the connection after the bytes already written."""
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
        self._update_reading()

    def resume_reading(self) -> None:
        """Reads again."""
        self.core_pauses = False
        self._update_reading()

    # Called by the memory of connections

    def restrain(self, *, is_read: bool, gets_messages: bool) -> None:
        """Reads from the peer and sends it messages, or not for now (SEC-30)."""
        self.may_be_read, self.may_get_messages = is_read, gets_messages
        self._update_delivery()
        self._wait_or_update_reading()

    def is_listening(self) -> bool:
        """Returns whether it is up to the peer that nothing arrives."""
        return self.is_read

    def count_unread(self) -> int:
        """Counts the bytes that the peer has not taken."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    def keep_waiting(self) -> None:
        """Reports to the core that the peer cannot answer a PING, as it is not read from."""
        self.engine.happen([StillReading(self.session_id)])

    def end(self) -> str:
        """Ends the connection immediately, and names it."""
        if self.transport is None:
            return f"session {self.session_id}"
        peer = self.transport.get_extra_info("peername")
        self.transport.abort()
        return f"session {self.session_id} of {peer_text(peer)}"

    def _count_received(self) -> None:
        kept_bytes, missing_bytes = self.splitter.held_bytes, self.splitter.missing_bytes
        if self.held or self.arrived:
            held_bytes = self.held_buffer_bytes + _ITEM_BYTES * len(self.held) if self.held else 0
            kept_bytes, missing_bytes = kept_bytes + held_bytes + len(self.arrived), 0
        was_counted, self.is_counted = self.is_counted, kept_bytes > UNCOUNTED_BYTES
        if self.is_counted:
            self.engine.memory.received(self, kept_bytes, missing_bytes)
        elif was_counted:
            self.engine.memory.received(self, 0, 0)

    # More than one turn takes

    def _has_more(self) -> bool:
        return bool(self.held or self.arrived)

    def _wait(self, *, is_light: bool = False) -> None:
        """Waits for its part of a turn, and is not read meanwhile."""
        if not self.is_waiting:
            self.is_waiting = True
            self.engine.wait(self, is_light=is_light)
        self._update_reading()

    def _wait_or_update_reading(self) -> None:
        if self._has_more():
            self._wait()
        else:
            self._update_reading()

    # Peers that request more than they read

    def _is_overfull(self) -> bool:
        return self.writing_paused and (self.unread_bytes > MAX_UNREAD_BYTES or not self.may_get_messages)

    def _update_delivery(self) -> None:
        if self.is_served:
            if self.writing_paused and (self.unread_bytes > _HIGH_WATER_BYTES or not self.may_get_messages):
                self.is_served = False
                self.engine.happen([WritingPaused(self.session_id)])
        elif not self.writing_paused or (self.may_get_messages and self.unread_bytes <= _LOW_WATER_BYTES):
            self.is_served = True
            self.engine.happen([WritingResumed(self.session_id)])

    def _update_reading(self) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        self._schedule_progress_check()
        is_read = self.may_be_read and not (self.core_pauses or self._has_more() or self._is_overfull())
        if is_read != self.is_read:
            self.is_read = is_read
            (transport.resume_reading if is_read else transport.pause_reading)()

    def _schedule_progress_check(self) -> None:
        transport = self.transport
        if transport is None or not self._is_overfull():
            if self.progress_check is not None:
                self.progress_check.cancel()
                self.progress_check = None
        elif self.progress_check is None:
            self.unread_at_check_bytes = transport.get_write_buffer_size()
            self.progress_check = self.engine.loop.call_later(PROGRESS_CHECK_S, self._check_progress)

    def _check_progress(self) -> None:
        """Reports to the core a peer that cannot answer a PING, as it is not read from, but receives its output."""
        self.progress_check = None
        transport = self.transport
        if transport is not None and transport.get_write_buffer_size() < self.unread_at_check_bytes:
            self.engine.happen([StillReading(self.session_id)])
        self._schedule_progress_check()

    # Frames to events

    def _split(self, data: bytes) -> None:
        """Cuts bytes into held frames and SENDs."""
        self.held_buffer_bytes = self.splitter.held_bytes + len(data)
        try:
            self.held = self.splitter.feed_sends(data)
        except MalformedFrame as error:
            self.failure = MalformedFrame(error.message)  # which does not hold the stack
        else:
            self.failure = self.splitter.failure
            self.spent_us = len(self.held)

    def _events(self, room_us: int) -> list[Event]:
        """Makes events of held items until they take about this time, one at the least; those behind a malformed one
        are dropped."""
        held = self.held
        happened: list[Event] = []
        spent_us = 0
        try:
            for item in held:
                event = self._event(item)
                happened.append(event)
                if type(item) is Frame:
                    spent_us += turn_budget.weight_us(event, item.end - item.start)
                    if spent_us >= room_us:
                        break
        except MalformedFrame as error:
            self.held, self.arrived, self.failure = [], b"", MalformedFrame(error.message)
        else:
            self.held = held[len(happened) :]
        self.spent_us += spent_us
        return happened

    def _event(self, item: Item) -> Event:
        if type(item) is SendRun:
            return self._sends(item)
        if type(item) is ColumnarSends:
            return ColumnarSendsReceived(self.session_id, item)
        buffer, start, end = item  # type: ignore[misc]
        ack = parse_ack_ids(buffer, start, end)
        if ack is not None and ack.ranges:
            return AcksReceived(self.session_id, ack)
        try:
            command, payload_start = parse_request(buffer, start, end)
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
