"""Reading a range of a topic partition as blocks of raw entries (W3, W7)."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.connection import Connection
from spark_pulsar.client.connections.demultiplexer import next_id
from spark_pulsar.client.connections.pipelined_requests import run_one
from spark_pulsar.client.connections.pool import ConnectionPool, Target
from spark_pulsar.client.connections.retry import Backoff
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ClientClosed, ConnectionLost, EndNotReached, naming_topic
from spark_pulsar.client.lookup import TopicDirectory
from spark_pulsar.client.reader_types import holds_back, is_refused_type
from spark_pulsar.client.reading.attached_consumers import last_message_id, reader_name
from spark_pulsar.client.reading.held_back_messages import HeldBack
from spark_pulsar.client.reading.inbox import Inbox, SharedInbox
from spark_pulsar.client.reading.permits import Permits
from spark_pulsar.model.errors import NotAllowed, PulsarError
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.wire.entries.entry_blocks import EntryBlock, block_of, permits_of
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import Frame

DEFAULT_QUEUED_BYTES: Final = 32 * 1024 * 1024
_CLOSE_TIMEOUT_MS: Final = 3_000
_OVERFLOW: Final = 4
"""Times the bytes meant to wait that may wait for a reader on a shared connection: permits count messages."""
_FIRST_STALL_CHECK_MS: Final = 1_000
_LAST_STALL_CHECK_MS: Final = 16_000


class _Reading:
    """Attached reader: its connection, its consumer and the frames that have arrived."""

    def __init__(
        self,
        target: Target,
        connection: Connection,
        max_queued_bytes: int,
        arrived: threading.Event | None,
        *,
        is_shared: bool,
    ) -> None:
        self.target = target
        self.connection = connection
        self.consumer_id = next_id()
        self.held_back: HeldBack | None = None
        """The proof that nothing is held back, for a type of subscription that may."""
        self.inbox = (
            SharedInbox(_OVERFLOW * max_queued_bytes, arrived)
            if is_shared
            else Inbox(max_queued_bytes, connection.pause_reading, connection.resume_reading, arrived)
        )


@dataclass(frozen=True)
class ReaderSettings:
    """Settings of one reader. `PulsarClient.fetch` says what each means, and has their defaults."""

    max_queued_bytes: int
    idle_timeout_ms: int | None
    read_compacted: bool
    is_shared: bool
    max_queued_messages: int | None = None


class Fetch:
    """A range of one topic partition, from `start` (next to read) to `end` (exclusive), in blocks of raw entries
    (READ-9).

    Made by `PulsarClient.fetch`. Iterate over it, or call `next_block`. A non-durable reader of a name of its own does
    the work, on a connection of its own, or on one that it shares; if that breaks, reading goes on after the last entry
    handed out, with another.
    Not thread-safe. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        config: ClientConfig,
        pool: ConnectionPool,
        directory: TopicDirectory,
        topic: str,
        start: MessageId,
        end: MessageId | None,
        settings: ReaderSettings,
        arrived: threading.Event | None,
    ) -> None:
        self.topic = topic
        self.start = start
        self.end = end
        self.position = start
        """Next to read after everything that was handed out."""
        self.finished = end is not None and _normal(start) >= _normal(end)
        """True when the end was reached."""
        self._config = config
        self._pool = pool
        self._directory = directory
        self._partition = TopicName.parse(topic).partition
        self._settings = settings
        self._arrived = arrived
        self._reading: _Reading | None = None
        self._lost: PulsarError | None = None
        """Why the last reader was lost, until something comes."""
        self._backoff = Backoff()
        self._attach_at_ms = 0
        self._permits = Permits(
            settings.max_queued_bytes, is_strict=settings.is_shared, most=settings.max_queued_messages
        )
        self._last: MessageId | None = None
        self._needs_last = False
        self._quiet_since_ms = 0
        self._stall_check_ms = _FIRST_STALL_CHECK_MS
        self._closed = False

    @property
    def is_attached(self) -> bool:
        """Returns whether a reader is attached, as far as is known: then the broker sends new messages by itself."""
        reading = self._reading
        return reading is not None and reading.inbox.lost is None

    # ---- taking

    def __iter__(self) -> Iterator[EntryBlock]:
        """Blocks until the end; for a fetch without end until nothing came for `idle_timeout_ms`.

        Raises as `next_block`, and OperationTimeout when an entry that must exist does not arrive (READ-10).
        """
        while not self.finished:
            block = self._next(self._patience())
            if block is not None:
                yield block
            elif not self.finished:
                return

    def _patience(self) -> Deadline:
        where = self._config.service_url
        if self.end is not None:
            return Deadline(
                self._config.operation_timeout_ms, f"waiting for entry {self.position} of {self.topic}", where
            )
        timeout_ms = self._settings.idle_timeout_ms if self._settings.idle_timeout_ms is not None else 1 << 50
        return Deadline(timeout_ms, f"waiting for new entries of {self.topic}", where)

    def next_block(self, timeout_ms: int) -> EntryBlock | None:
        """Returns the next block; None when the time is up or the fetch has finished (`finished` says which).

        Raises EndNotReached when the log ends before the end of the range, ChecksumFailed for a damaged entry,
        TopicNotFound when the topic is gone, OperationTimeout when no broker can be reached.
        """
        deadline = Deadline(timeout_ms, f"waiting for entry {self.position} of {self.topic}", self._config.service_url)
        return self._next(deadline, quiet=True)

    def next_block_by(self, deadline: Deadline) -> EntryBlock | None:
        """Returns as `next_block`; ends all requests to the broker by `deadline`, attaching a reader above all. Raises
        as `next_block`."""
        return self._next(deadline, quiet=True, patience=deadline)

    def poll(self, patience: Deadline) -> EntryBlock | None:
        """Returns the next block if one has arrived, else None; the event given to `PulsarClient.fetch` is set
        when one may have.

        Requests to the broker, attaching a reader above all, end by `patience`. Raises as `next_block`, and
        OperationTimeout when that was not enough.
        """
        now = patience.at_most(0, patience.what, patience.where)
        return self._next(now, quiet=True, patience=patience)

    def _next(self, deadline: Deadline, quiet: bool = False, patience: Deadline | None = None) -> EntryBlock | None:
        quiet = quiet or self.end is None
        while not self.finished:
            if self._closed:
                raise ClientClosed(f"the fetch of {self.topic} is closed")
            if self._reading is None and not self._may_attach(deadline):
                if quiet:
                    return None
                raise deadline.error(self._lost) from self._lost
            reading = self._reading or self._open(patience)
            runs = reading.inbox.receive(0)
            if not runs:
                if self._needs_last and reading.inbox.lost is None:
                    self._refresh_last(reading, patience)
                runs = reading.inbox.receive(min(deadline.left_ms(), self._stall_check_ms))
            if runs:
                block = self._accept(reading, self._block_of(runs, reading))
                if block is not None:
                    return block
            elif reading.inbox.lost is not None:
                self._drop()
                self._put_off(reading.inbox.lost)
            elif not deadline.passed:
                self._check_stall(reading, patience)
            elif quiet:
                if patience is not None and not patience.passed:
                    self._check_stall(reading, patience)
                return None
            else:
                raise deadline.error()
        return None

    def _block_of(self, runs: list[list[Frame]], reading: _Reading) -> EntryBlock:
        """Returns the entries that arrived. An entry that cannot be read is read again by the next call, never passed
        over."""
        try:
            return block_of(runs, reading.consumer_id, self._partition, self.topic)
        except PulsarError:
            self._drop()
            raise

    def _accept(self, reading: _Reading, block: EntryBlock) -> EntryBlock | None:
        """Accounts for what arrived, cut it to the range; the block to hand out, or None if nothing of it is wanted."""
        if not len(block):
            return None
        self._quiet_since_ms, self._stall_check_ms = monotonic_ms(), _FIRST_STALL_CHECK_MS
        self._lost = None
        self._backoff.reset()
        self._permits.received(permits_of(block), len(block), block.size_bytes)
        newest = Position(block.ledger_ids[-1], block.entry_ids[-1])
        if not self._is_all(reading, block):
            return None
        end_passed = self._cut(block)
        if len(block):
            self.position = MessageId(block.ledger_ids[-1], block.entry_ids[-1] + 1, self._partition, -1)
            if block.end_batch_index >= 0 and self.end is not None:
                self.position = self.end
        if end_passed or (self.end is not None and _normal(self.position) >= _normal(self.end)):
            self._finish()
        else:
            # The last known entry may be the last one at all: request the last message id before waiting.
            self._needs_last = self.end is not None and (self._last is None or newest >= self._last.position)
            self._grant(reading)
        return block if len(block) else None

    def _is_all(self, reading: _Reading, block: EntryBlock) -> bool:
        """Returns true where nothing is missing before the entries that arrived, false where the reader was lost before
        that could be proven, so that they come again. Raises DeliveryHeldBack."""
        if reading.held_back is None:
            return True
        deadline = self._within(None, f"acknowledging entries of {self.topic}", str(reading.connection.address))
        try:
            reading.held_back.check(block, deadline)
        except PulsarError as error:
            self._drop()
            if not error.retriable:
                raise
            self._put_off(error)
            return False
        return True

    def _cut(self, block: EntryBlock) -> bool:
        """Cuts a block to what lies between position and end; whether something at or after the end had arrived."""
        block.cut_before(*self.position.position)
        position, end = self.position, self.end
        if len(block) and position.batch_index > 0:
            first = (block.ledger_ids[0], block.entry_ids[0])
            block.first_batch_index = position.batch_index if first == position.position else 0
        if end is None or not len(block):
            return False
        newest = (block.ledger_ids[-1], block.entry_ids[-1])
        if newest < end.position:
            return False
        if end.batch_index <= 0:
            block.cut_from(*end.position)
            return True
        block.cut_from(end.ledger_id, end.entry_id + 1)
        if len(block) and (block.ledger_ids[-1], block.entry_ids[-1]) == end.position:
            block.end_batch_index = end.batch_index
        return True

    # ---- knowing when nothing more can come

    def _within(self, patience: Deadline | None, what: str, where: str) -> Deadline:
        """Returns the deadline of one request to the broker."""
        if patience is None:
            return Deadline(self._config.operation_timeout_ms, what, where)
        return patience.at_most(self._config.operation_timeout_ms, what, where)

    def _refresh_last(self, reading: _Reading, patience: Deadline | None) -> bool:
        """Requests the end of the log; returns whether something is left to read. Raises EndNotReached if the end is
        beyond."""
        where = str(reading.connection.address)
        deadline = self._within(patience, f"requesting the last message id of {self.topic}", where)
        try:
            request_id = next_id()
            command = requests.last_message_id(request_id, reading.consumer_id)
            answer = reading.connection.request(command, request_id, deadline).getLastMessageIdResponse
        except ConnectionLost:
            return False  # the inbox knows too; the next check of it leads to a new reader
        except PulsarError as error:
            if not error.retriable:
                raise
            # No answer, or the broker no longer knows the reader, as while it unloads the topic: as good as lost.
            reading.inbox.detached(error)
            return False
        self._last = last_message_id(answer, self._partition)
        self._needs_last = False
        something_left = self._last is not None and self._last.position >= self.position.position
        if not something_left and self.end is not None and reading.inbox.lost is None and reading.inbox.empty:
            raise EndNotReached(self.topic, self.start, self.end, self.position, self._last)
        return something_left

    def _check_stall(self, reading: _Reading, patience: Deadline | None) -> None:
        """Nothing arrived: once in a while make sure that there is nothing, or else that permits are not the reason."""
        now_ms = monotonic_ms()
        if now_ms - self._quiet_since_ms < self._stall_check_ms:
            return
        self._quiet_since_ms = now_ms
        self._stall_check_ms = min(2 * self._stall_check_ms, _LAST_STALL_CHECK_MS)
        if self._refresh_last(reading, patience):
            if reading.held_back is not None and self._stall_check_ms == _LAST_STALL_CHECK_MS:
                raise reading.held_back.error(self.position)
            self._flow(reading, self._permits.grant_again())

    # ---- the reader

    def _put_off(self, lost: PulsarError) -> None:
        """A reader was lost: another is attached at once, but after pauses if readers are lost before anything came."""
        self._attach_at_ms = monotonic_ms() + (0 if self._lost is None else self._backoff.next_ms())
        self._lost = lost

    def _may_attach(self, deadline: Deadline) -> bool:
        """Returns whether it is time to attach a reader, or comes to be by the deadline."""
        wait_ms = self._attach_at_ms - monotonic_ms()
        if wait_ms <= 0:
            return True
        left_ms = deadline.left_ms()
        threading.Event().wait(min(wait_ms, left_ms) / 1000)
        return wait_ms <= left_ms

    def _open(self, patience: Deadline | None) -> _Reading:
        """Attaches a reader at the position, trying again while that may help."""
        what = f"opening a reader at {self.position} of {self.topic}"
        deadline = self._within(patience, what, self._config.service_url)
        if deadline.passed:
            raise deadline.error()
        backoff = Backoff()
        while True:
            try:
                return self._open_once(deadline)
            except PulsarError as error:
                self._drop()
                if not error.retriable:
                    raise naming_topic(error, self.topic) from error.__cause__
                self._directory.discard(self.topic)
                backoff.pause(deadline, error)

    def _open_once(self, deadline: Deadline) -> _Reading:
        target = run_one(lambda: self._directory.find(self.topic, deadline), deadline)
        connection = (self._pool.shared if self._settings.is_shared else self._pool.acquire)(target, deadline)
        reading = self._reading = _Reading(
            target, connection, self._settings.max_queued_bytes, self._arrived, is_shared=self._settings.is_shared
        )
        connection.attach_consumer(reading.consumer_id, reading.inbox, takes_messages=True)
        self._subscribe(reading, deadline)
        self._permits.reset()
        self._quiet_since_ms = monotonic_ms()
        if self.end is not None:
            self._refresh_last(reading, deadline)
            if reading.inbox.lost is not None:
                raise reading.inbox.lost
        self._grant(reading)
        return reading

    def _subscribe(self, reading: _Reading, deadline: Deadline) -> None:
        """Attaches the reader by a type of subscription that the topic allows."""
        types = self._directory.reader_types
        refusal: PulsarError | None = None
        for subscription_type in types.candidates(self.topic):
            request_id = next_id()
            command = requests.subscribe(
                request_id,
                self.topic,
                reader_name(self._config.subscription_prefix),
                reading.consumer_id,
                subscription_type,
                durable=False,
                start=self.position._replace(batch_index=-1),
                read_compacted=self._settings.read_compacted,
                create_topic=False,
            )
            try:
                reading.connection.request(command, request_id, deadline)
            except NotAllowed as error:
                if not is_refused_type(error):
                    raise
                refusal = refusal or error
                reading.connection.detach_consumer(reading.consumer_id)
                reading.consumer_id = next_id()  # an Apache Pulsar may know the refused one for a moment
                reading.connection.attach_consumer(reading.consumer_id, reading.inbox, takes_messages=True)
            else:
                types.worked(self.topic, subscription_type)
                held_back = HeldBack(self.topic, reading.connection, reading.consumer_id)
                reading.held_back = held_back if holds_back(subscription_type) else None
                return
        assert refusal is not None
        raise refusal

    def _entries_left(self) -> int | None:
        """Counts the entries that the range still has at most; None if that is not known."""
        if self.end is None or self.end.ledger_id != self.position.ledger_id:
            return None
        return max(1, self.end.entry_id - self.position.entry_id + (1 if self.end.batch_index > 0 else 0))

    def _grant(self, reading: _Reading) -> None:
        """Gives the permits that are due (W5)."""
        self._permits.entries_left = self._entries_left()
        self._flow(reading, self._permits.grant())

    def _flow(self, reading: _Reading, permits: int) -> None:
        if permits > 0:
            try:
                reading.connection.send_command(requests.flow(reading.consumer_id, permits))
            except ConnectionLost:
                self._permits.revoke(permits)  # the inbox knows too; the next take repairs it

    def _finish(self) -> None:
        self.finished = True
        self._detach()

    def _drop(self) -> None:
        """Discards the reader after its connection or consumer was lost."""
        reading, self._reading = self._reading, None
        if reading is None:
            return
        if self._settings.is_shared:
            self._leave(reading)
        else:
            self._pool.drop(reading.connection)

    def _leave(self, reading: _Reading) -> None:
        """Closes a reader on a connection that others use."""
        reading.connection.detach_consumer(reading.consumer_id)
        if reading.connection.alive:
            with suppress(ConnectionLost):  # which closes the reader, too
                reading.connection.send_command(requests.close_consumer(next_id(), reading.consumer_id))

    def _detach(self) -> None:
        """Closes the reader; its connection is kept for the next fetch if the broker confirms soon."""
        reading, self._reading = self._reading, None
        if reading is None:
            return
        if self._settings.is_shared:
            self._leave(reading)
            return
        connection = reading.connection
        reading.inbox.release()  # or the answer below might never be read
        connection.detach_consumer(reading.consumer_id)
        deadline = Deadline(_CLOSE_TIMEOUT_MS, f"closing the reader of {self.topic}", str(connection.address))
        try:
            request_id = next_id()
            connection.request(requests.close_consumer(request_id, reading.consumer_id), request_id, deadline)
        except PulsarError:
            self._pool.drop(connection)  # which closes the reader all the same
        else:
            self._pool.give_back(reading.target, connection)

    def close(self) -> None:
        """Closes the reader. Taking blocks raises ClientClosed from now on. Idempotent."""
        self._closed = True
        self._detach()

    def __enter__(self) -> "Fetch":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _normal(position: MessageId) -> MessageId:
    """Returns a position in its normal form: a whole entry still to read has batch index -1."""
    return position if position.batch_index > 0 else position._replace(batch_index=-1)
