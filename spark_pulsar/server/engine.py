"""The engine: gathers the events of one turn of the loop, hands them to the core, and carries out its effects.

One engine runs one core on one storage. When the journal fails, or the core contradicts itself, the engine stops for
good and reports it; the runner opens the storage again and starts another.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from spark_pulsar.broker.broker import Broker
from spark_pulsar.broker.invariants import TurnChecks
from spark_pulsar.broker.turn.effects import (
    AppendRecords,
    Authenticate,
    CloseSession,
    CompactTopic,
    ContinueCompaction,
    Effect,
    PauseReading,
    ReadEntries,
    ReadSizes,
    ResumeReading,
    SendColumnarReceipts,
    SendCommand,
    SendMessages,
    SendReceipts,
    StopCompaction,
    WriteAudit,
)
from spark_pulsar.broker.turn.events import (
    AuthenticationRefused,
    ClockCorrected,
    DiskFull,
    DiskHangs,
    EntriesLost,
    Event,
    RecordsDurable,
    SessionAuthenticated,
    SessionClosed,
    SessionOpened,
)
from spark_pulsar.ledger.storage import StorageDamaged
from spark_pulsar.model.errors import AuthenticationError, NotAllowed, PulsarError
from spark_pulsar.model.limits import FRAME_PADDING_BYTES
from spark_pulsar.server.compaction.running import Compactions
from spark_pulsar.server.security.audit import write_audit
from spark_pulsar.server.security.provider import VOUCHED, Credentials
from spark_pulsar.wire.entries.messages import message_frames
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.protocol.frames import command_frame
from spark_pulsar.wire.sends.receipts import receipts

from .clock import CHECK_S, Clock
from .connections import turn_budget
from .connections.admission import Admission
from .connections.connection import Connection
from .connections.connection_memory import DEFAULT_BUDGET_BYTES, ConnectionMemory
from .connections.rotation import Rotation
from .core_requests import CoreRequests
from .group_submitter import GroupSubmitter
from .log.hosts import of_host
from .reads import Reads
from .sockets import local_text, peer_text

if TYPE_CHECKING:
    from pathlib import Path

    from spark_pulsar.broker.configuration.broker_config import BrokerConfig
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.storage import Storage
    from spark_pulsar.server.security.provider import Vouched
    from spark_pulsar.server.security.providers import Outcome, Providers

CHECK_INVARIANTS: Final = "SPARK_PULSAR_CHECK_INVARIANTS"
"""Environment variable: 1 = check the core's invariants after every turn, see `TurnChecks`."""

_NEXT_ROWS_S: Final = 0.002
"""Time between two turns that take rows for a checkpoint, when nothing else happens."""

_LOG = logging.getLogger("spark_pulsar.server")
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class SharedByConnections:
    """Room, memory and credentials that all connections of a process share, whichever engine serves them.

    | attribute | meaning |
    | --- | --- |
    | `has_room` | returns whether one more connection may be served beside that number |
    | `memory` | bytes that wait for clients |
    | `admission` | counts of connections |
    | `providers` | check credentials, while authentication is on |
    """

    has_room: Callable[[int], bool] = lambda _count: True
    memory: ConnectionMemory | None = None
    admission: Admission | None = None
    providers: Providers | None = None


class Engine:
    """Carries events to a core, and its effects out."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        storage: Storage,
        state: DurableState,
        config: BrokerConfig,
        clock: Clock,
        on_stopped: Callable[[BaseException], None],
        shared: SharedByConnections | None = None,
        directory: Path | None = None,
    ) -> None:
        """`directory` is on the disk of the storage."""
        shared = shared or SharedByConnections()
        self.loop = loop
        self._clock = clock
        self._ahead_ms = clock.ahead_ms()
        self.broker = Broker(state, config, clock.now_ms(), self._ahead_ms)
        self.connections: dict[int, Connection] = {}
        self.memory = shared.memory or ConnectionMemory(DEFAULT_BUDGET_BYTES, loop.time, loop.call_later)
        self._storage = storage
        self._state = state
        self._on_stopped = on_stopped
        self._has_room = shared.has_room
        self._admission = Admission() if shared.admission is None else shared.admission
        self._providers = shared.providers
        self._directory = directory
        self._max_frame_bytes = config.max_message_size_bytes + FRAME_PADDING_BYTES
        self._last_session = 0
        self._happened: list[Event] = []
        self._turn_is_due = False
        self._read_bytes = 0
        """Bytes read from connections since the last turn."""
        self._is_behind = False
        """The last turn left events for the next one, which has to write them."""
        self.room_us = turn_budget.TURN_US
        """Time left in the next turn for what connections hand over at once."""
        self._rotation = Rotation()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._checked_ms = 0
        """Time of the last check whether a checkpoint is needed."""
        self._stopped = False
        self._reads = Reads(loop, storage, self.happen, self.on_trouble, self.stop)
        self._submitter = GroupSubmitter(
            loop, storage, self._on_durable, lambda group: self.happen([RecordsDurable(group)])
        )
        self._compactions = Compactions(storage.read, self._hand_over)
        self._checks = TurnChecks(self.broker) if os.environ.get(CHECK_INVARIANTS) == "1" else None
        self._do = self._actions()
        self._to_flush: dict[Connection, None] = {}
        self._to_close: list[Connection] = []
        self._may_wait = False
        """This turn has nothing else to do, so that the loop may wait for a quick disk."""
        self._put_off: AppendRecords | None = None
        self._requests = CoreRequests(loop)
        self.happen([])
        self._check_clock()

    def _actions(self) -> dict[type, Callable[..., None]]:
        """Names what carries out each effect."""
        return {
            SendReceipts: self._send_receipts,
            SendColumnarReceipts: self._send_columnar_receipts,
            SendMessages: self._send_messages,
            SendCommand: self._send_command,
            AppendRecords: self._append_records,
            ReadEntries: self._reads.entries,
            ReadSizes: self._reads.sizes,
            CloseSession: self._close_session,
            PauseReading: self._pause_reading,
            ResumeReading: self._resume_reading,
            CompactTopic: self._compactions.start,
            ContinueCompaction: lambda effect: self._compactions.go_on(effect.token),
            StopCompaction: lambda effect: self._compactions.stop(effect.token),
            WriteAudit: write_audit,
            Authenticate: self._authenticate,
        }

    @property
    def core(self) -> Core:
        """The core, for reading."""
        return self.broker.core

    # Events

    def new_connection(self) -> Connection:
        """Makes the protocol object of a connection about to be made."""
        self._last_session += 1
        return Connection(self, self._last_session, self._max_frame_bytes)

    def happen(self, happened: list[Event]) -> None:
        """Notes events; the core hears of them at the end of this turn of the loop."""
        self._happened += happened
        if not self._turn_is_due and not self._stopped:
            self._turn_is_due = True
            self.loop.call_soon(self._due_turn)

    def happen_now(self, happened: list[Event], spent_us: int) -> None:
        """Notes events of a connection that are not to wait for other turns; they take about this time."""
        if happened:
            self.room_us -= spent_us
            self.happen(happened)

    def wait(self, connection: Connection, *, is_light: bool) -> None:
        """Puts a connection into the rotation, whose events are for later turns."""
        if not self._stopped:
            self._rotation.enter(connection, is_light=is_light)
            self.happen([])

    @property
    def is_busy(self) -> bool:
        """Returns whether this turn has enough to do, so that connections wait with the bytes already read."""
        return self._is_behind or self.room_us <= 0 or len(self._rotation) > 0

    @property
    def is_stopped(self) -> bool:
        """Returns whether the engine has ended."""
        return self._stopped

    def has_read(self, size_bytes: int) -> None:
        """Counts bytes read from connections; after many the turn comes at once."""
        self._read_bytes += size_bytes
        if self._read_bytes >= turn_budget.TURN_READ_BYTES:
            self.turn()

    def on_connected(self, connection: Connection) -> None:
        """Reports a new connection to the core, or ends it when there is no room."""
        transport = connection.transport
        assert transport is not None, "set by connection_made"
        if self._stopped or not self._has_room(len(self.connections)):
            transport.abort()
            return
        peer, local = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        refusal = self._admission.enter(connection, peer, connection.abort)
        if refusal:
            _LOG.info("connection of %s refused: %s", peer_text(peer), refusal, extra=of_host(peer))
            transport.write(command_frame(commands.error(commands.NO_REQUEST, NotAllowed(refusal))))
            connection.close()
            return
        self.connections[connection.session_id] = connection
        is_tls = transport.get_extra_info("sslcontext") is not None
        self.happen([SessionOpened(connection.session_id, peer_text(peer), local_text(local), is_tls)])

    def on_lost(self, connection: Connection) -> None:
        """Reports to the core that a connection is gone."""
        self._admission.leave(connection)
        connection.cancel_check()
        if self.connections.pop(connection.session_id, None) is not None:
            self.happen([SessionClosed(connection.session_id)])

    def on_malformed(self, connection: Connection, error: PulsarError) -> None:
        """Ends a connection, whose bytes are no frame, without an answer, as Apache Pulsar does."""
        _LOG.info("session %d: %s", connection.session_id, error, extra=_host_of(connection))
        connection.pause_reading()
        self._to_close.append(connection)  # after the answers to the good frames before them
        self.happen([])

    def submit(self, request: Callable[[Core], _Answer]) -> asyncio.Future[_Answer]:
        """Runs `request` in the core; its result, once all it changed is on disk, or an error (`CoreRequests`)."""
        return self._requests.submit(request, lambda event: self.happen([event]))

    # A turn

    def disk_space(self) -> tuple[int, int] | None:
        """Reads from the operating system the size of the storage's disk and its free space, in bytes; None in memory.
        May wait for the disk: not for the loop's thread."""
        if self._directory is None:
            return None
        usage = shutil.disk_usage(self._directory)
        return usage.total, usage.free

    def _due_turn(self) -> None:
        self._turn_is_due = False
        self.turn(turn_budget.TURN_US)
        if self._rotation or self._is_behind:
            self.happen([])

    def turn(self, rotation_us: int = 0) -> None:
        """Hands the events up to now to the core, and carries out its effects. `rotation_us`: time for the
        connections in rotation."""
        self._read_bytes = 0
        if self._stopped:
            return
        now_ms = self._clock.now_ms()
        try:
            happened = self._due(rotation_us)
            if self._clock.ahead_ms() != self._ahead_ms:
                self._ahead_ms = self._clock.ahead_ms()
                _LOG.info("the machine's clock was corrected: it is %+d ms from that of the start", self._ahead_ms)
                happened.insert(0, ClockCorrected(self._ahead_ms))
            effects = self.broker.handle(happened, now_ms)
            if self._checks is not None:
                self._checks.after_turn()
            self._may_wait = len(happened) == 1
            self._perform(effects)
            self._may_wait = False
            if now_ms != self._checked_ms:
                self._checked_ms = now_ms
                if self._storage.needs_checkpoint():
                    self._prepare_checkpoint(now_ms)
        except Exception as error:  # noqa: BLE001  # memory can no longer be trusted; the disk can
            self.stop(error)
            return
        self._set_timer(now_ms)

    def _due(self, rotation_us: int = 0) -> list[Event]:
        """Takes the events of this turn: those of connections that wait for no other, and then, in rotation, of the
        others (SEC-29). It takes not more to write than one submit takes; the rest is for the next turn."""
        happened, self._happened = self._happened, []
        if not self._is_behind and rotation_us:
            happened += self._rotation.next_events(rotation_us - (turn_budget.TURN_US - self.room_us))
        self.room_us = turn_budget.TURN_US
        taken = turn_budget.taken(happened)
        self._is_behind = taken < len(happened)
        if self._is_behind:
            self._happened = happened[taken:] + self._happened
            self.happen([])
            return happened[:taken]
        return happened

    def _perform(self, effects: list[Effect]) -> None:
        do = self._do
        for effect in effects:
            do[type(effect)](effect)
        if self._to_flush:
            to_flush, self._to_flush = self._to_flush, {}
            for connection in to_flush:
                connection.flush()
        if self._to_close and not self._is_behind:  # which may have what came before the end of a connection
            to_close, self._to_close = self._to_close, []
            for connection in to_close:
                connection.close()
        if self._put_off is not None:
            put_off, self._put_off = self._put_off, None
            self._submit(put_off)
        self._submitter.go_on()

    def _prepare_checkpoint(self, now_ms: int) -> None:
        """Begins a checkpoint once its rows have been collected, some of them in each turn."""
        if self._storage.prepare_checkpoint(self._state):
            self._checkpoint(now_ms)
        else:
            self.loop.call_later(_NEXT_ROWS_S, self.happen, [])

    def _checkpoint(self, now_ms: int) -> None:
        """Begins a checkpoint; all that was applied must have been submitted, lazy acks too."""
        self.core.force_lazy_records()
        self._perform(self.broker.handle([], now_ms))
        self._submitter.hand_over()
        self._storage.checkpoint(self._state)

    def _set_timer(self, now_ms: int) -> None:
        deadline = self.broker.next_deadline()
        if deadline is None or self._turn_is_due:
            return
        if deadline <= now_ms:
            self._turn_is_due = True
            self.loop.call_soon(self._due_turn)
        elif self._timer is None or deadline < self._timer_ms:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ms = deadline
            self._timer = self.loop.call_later((deadline - now_ms) / 1000, self._on_timer)

    def _check_clock(self) -> None:
        """Begins a turn when the machine's clock was corrected while nothing else happened."""
        if not self._stopped:
            if self._clock.ahead_ms() != self._ahead_ms:
                self.happen([])
            self.loop.call_later(CHECK_S, self._check_clock)

    def _on_timer(self) -> None:
        self._timer = None
        self.happen([])

    # Effects

    def _out(self, session_id: int) -> list[bytes | bytearray | memoryview] | None:
        connection = self.connections.get(session_id)
        if connection is None:
            return None
        self._to_flush[connection] = None
        return connection.pieces

    def _send_command(self, effect: SendCommand) -> None:
        connection = self.connections.get(effect.session_id)
        if connection is None:
            return
        self._to_flush[connection] = None
        connection.pieces.append(command_frame(effect.command))
        if connection.is_pending:
            session = self.core.sessions.get(effect.session_id)
            if session is not None and session.connected:
                connection.is_pending = False
                self._admission.pending.leave(connection)

    def _send_receipts(self, effect: SendReceipts) -> None:
        pieces = self._out(effect.session_id)
        if pieces is not None:
            pieces.append(
                receipts(
                    effect.producer_id,
                    effect.ledger_id,
                    effect.first_entry_id,
                    effect.sequence_ids,
                    effect.highest_sequence_ids,
                )
            )

    def _send_columnar_receipts(self, effect: SendColumnarReceipts) -> None:
        from spark_pulsar.wire.sends.columnar_receipts import columnar_receipts  # with NumPy, as columnar SENDs are

        pieces = self._out(effect.session_id)
        if pieces is not None:
            pieces.append(
                columnar_receipts(effect.producer_ids, effect.ledger_ids, effect.entry_ids, effect.sequence_ids)
            )

    def _send_messages(self, effect: SendMessages) -> None:
        pieces = self._out(effect.session_id)
        if pieces is not None:
            pieces += message_frames(
                effect.consumer_id,
                effect.ledger_id,
                effect.first_entry_id,
                effect.partition,
                effect.buffer,
                effect.starts,
                effect.ends,
                effect.redelivery_counts,
                effect.ack_sets,
                effect.consumer_epoch,
                effect.entry_ids,
            )

    def _append_records(self, effect: AppendRecords) -> None:
        if self._may_wait:
            self._put_off = effect  # until everything else of this turn has left
        else:
            self._submit(effect)

    def _submit(self, effect: AppendRecords) -> None:
        self._submitter.submit(effect, self.core.pending_publish_bytes, at_once=self._may_wait)

    def _on_durable(self, group: int) -> None:
        """Begins a turn at once: the journal has groups on disk."""
        if not self._stopped:
            self._happened.append(RecordsDurable(group))
            self.turn()

    def _hand_over(self, event: Event) -> None:
        """Runs in the thread that compacts."""
        if not self._stopped:
            self.loop.call_soon_threadsafe(self.happen, [event])

    def on_disk_full(self, reason: str, is_stalled: bool) -> None:
        """Reports to the core that the disk takes no more, or does again (then the reason is empty)."""
        if reason:
            _LOG.error("no space for the journal, producers must wait: %s", reason)
        else:
            _LOG.info("there is space for the journal again")
        self.happen([DiskFull(reason, is_stalled)])

    def on_disk_hangs(self, reason: str) -> None:
        """Reports to the core that a write does not return, or that it has (then the reason is empty)."""
        self.happen([DiskHangs(reason)])

    def on_trouble(self, what: str, error: Exception) -> None:
        """Logs a failure after which the storage tries again. The core hears of entries that are lost."""
        _LOG.error("%s: %s", what, error)
        if isinstance(error, StorageDamaged) and error.lost:
            self.happen([EntriesLost(error.lost, f"{error.file}:{error.offset}", error.text)])

    def _close_session(self, effect: CloseSession) -> None:
        connection = self.connections.get(effect.session_id)
        if connection is not None:
            _LOG.info("session %d closed: %s", effect.session_id, effect.reason, extra=_host_of(connection))
            self._to_close.append(connection)

    def _authenticate(self, effect: Authenticate) -> None:
        connection = self.connections.get(effect.session_id)
        if connection is None or connection.transport is None or self._providers is None:
            return
        vouched: Vouched | None = connection.transport.get_extra_info(VOUCHED)
        if vouched is not None:  # of HTTP, which has checked the credentials
            role = vouched.principal.original if effect.is_forwarded else vouched.principal.role
            if role is not None:
                happened = SessionAuthenticated(effect.session_id, effect.number, role, vouched.expires_ms)
                self.happen([happened])
                return
        credentials = Credentials(
            effect.method,
            effect.data,
            None if effect.is_forwarded else connection.client_certificate(),
            peer_text(connection.transport.get_extra_info("peername")),
        )

        def done(outcome: Outcome) -> None:
            if isinstance(outcome, AuthenticationError):
                self.happen([AuthenticationRefused(effect.session_id, effect.number, outcome.message)])
            else:
                role, expires_ms = outcome.role, outcome.expires_ms
                self.happen([SessionAuthenticated(effect.session_id, effect.number, role, expires_ms)])

        connection.cancel_check()  # only the outcome of the newest counts
        connection.cancel_check = self._providers.start(self.loop, credentials, done)

    def _pause_reading(self, effect: PauseReading) -> None:
        connection = self.connections.get(effect.session_id)
        if connection is not None:
            connection.pause_reading()

    def _resume_reading(self, effect: ResumeReading) -> None:
        connection = self.connections.get(effect.session_id)
        if connection is not None:
            connection.resume_reading()

    # The end

    def stop(self, error: BaseException) -> None:
        """Stops for good because memory and disk may differ; every connection ends and its client comes back."""
        if self._stopped:
            return
        _LOG.error("the broker's core stops and is restarted from disk", exc_info=error)
        self._end()
        self._on_stopped(error)

    def close(self) -> None:
        """Ends cleanly: all that was received is written, connections end, and the storage is closed with a last
        checkpoint."""
        if self._stopped:
            return
        self.core.force_lazy_records()
        while True:
            self._perform(self.broker.handle(self._due(), self._clock.now_ms()))
            if not self._happened:
                break
        self._submitter.hand_over()
        self._end()
        self._storage.close(self._state)

    def _end(self) -> None:
        self._stopped, self._is_behind = True, False
        self._rotation.clear()
        if self._timer is not None:
            self._timer.cancel()
        connections, self.connections = self.connections, {}
        for connection in connections.values():
            self._admission.leave(connection)
            connection.abort()
        self._requests.end()
        self._submitter.close()
        self._reads.close()
        self._compactions.close()


def _host_of(connection: Connection) -> dict[str, str]:
    """Returns the `extra` of a log record that the client of a connection causes."""
    transport = connection.transport
    return of_host(None if transport is None else transport.get_extra_info("peername"))
