"""Publishing to one topic partition: pipelined, in order, sent again after a reconnect until every receipt is there."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from spark_pulsar.client.clock import monotonic_ms, wall_ms
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.demultiplexer import next_id
from spark_pulsar.client.connections.pipelined_requests import run_one
from spark_pulsar.client.connections.retry import Backoff
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import (
    ClientClosed,
    ConnectionLost,
    MessageTooLarge,
    SequenceIdForgotten,
    SequenceIdPassed,
    naming_topic,
)
from spark_pulsar.client.lookup import TopicDirectory
from spark_pulsar.client.publishing.attached_producer import ProducerLine, SentEntry
from spark_pulsar.client.publishing.refusals import described, is_final, is_too_large, judged, last_id_of
from spark_pulsar.model.errors import ProducerBusy, PulsarError
from spark_pulsar.model.limits import FRAME_PADDING_BYTES
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import MessageId, TransactionId, signed
from spark_pulsar.model.schemas import Schema
from spark_pulsar.wire.entries.entry_bytes import CHECKSUM_MAGIC, build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import CommandProducerSuccess, CommandSendReceipt, MessageIdData, MessageMetadata

DEFAULT_PENDING_ENTRIES: Final = 1_000
DEFAULT_PENDING_BYTES: Final = 64 * 1024 * 1024
_RESEND_TOGETHER: Final = 64

Split = Callable[["Publisher", SentEntry], Sequence[SentEntry]]
"""Returns the messages of an entry in smaller entries, at least two. Raises MessageTooLarge for a single message."""


@dataclass(frozen=True)
class ProducerSettings:
    """Settings of one producer. `PulsarClient.publisher` says what each means, and has their defaults."""

    name: str | None
    max_pending_entries: int
    max_pending_bytes: int
    receipt_timeout_ms: int | None
    schema: Schema | None
    properties: Mapping[str, str] | None
    deduplicated: bool
    encrypted: bool
    transaction: TransactionId | None
    split: Split | None


class Publisher:
    """A producer on one topic partition (SINK-16, SINK-15). Made by `PulsarClient.publisher`; for one thread at a time.

    An entry that was sent stays here until its receipt has come. When the connection breaks or the broker closes the
    producer, the next call attaches again, under the same name, and sends what has no receipt once more, in order and
    with the same sequence ids: at least once, and without duplicates on a topic with deduplication.

    An entry that the broker refuses while it stores those behind it is sent again by a producer of another name, where
    the broker gives the names: under the old one a topic with deduplication would drop it as a duplicate. A refusal may
    also be lost with the connection: where the broker then reports the sequence id of the second entry without receipt,
    or a later one, all entries without receipt are sent again under another name, possibly twice. A publisher with a
    name of its own fails when an entry is refused; to notice a lost refusal, it sends one entry at a time (ONCE-9).
    Entries above a topic's `maxMessageSize` are sent again in parts, by `split`.

    The first failure that no retry can mend is final: it is raised by the call that meets it and by all later ones.
    A deduplicated publisher is for a topic with deduplication and a name of one's own (DED-11). It waits for another
    one that holds the name, as long as creating a producer may take, and fails with SequenceIdForgotten when the broker
    does not know, after a reconnect, the entries that it has written.

    Close the publisher (which waits for all receipts) or use it as a context manager (which does so unless an error is
    on its way out).
    """

    def __init__(
        self,
        config: ClientConfig,
        directory: TopicDirectory,
        topic: str,
        settings: ProducerSettings,
    ) -> None:
        self.topic = topic
        self.producer_name = settings.name or ""
        """The producer's name: the given one or the broker's."""
        self.next_sequence_id = 0
        """Sequence id of the next message; after creation one more than the last the broker knows of this name."""
        self.last_sequence_id = -1
        """Last sequence id of this name that the broker knew when the publisher was created; -1 for none."""
        self.max_message_size_bytes = 0
        """The broker's limit for metadata and payload of one entry."""
        self.topic_limit_bytes: int | None = None
        """The topic's limit for the bytes of an entry as they are stored, chunks excepted; None if none is known."""
        self.schema_version = b""
        """Version of the schema that the broker has given, which each message names; empty without a schema."""
        self.last_message_id: MessageId | None = None
        """The id in the last receipt; None before the first, and not changed by a dropped duplicate."""
        self.duplicates = 0
        """Entries that the broker dropped because it had them already (deduplication)."""
        self._config = config
        self._directory = directory
        self._settings = settings
        self._stored_sequence_id = -1
        self._name_is_ours = settings.name is not None
        self._needs_new_name = False
        self._refused: list[SentEntry] = []
        """Entries above a topic's limit, to be sent again in parts."""
        self._passed: set[int] = set()
        """First sequence ids of entries that were refused, or not answered, while others had been sent behind them."""
        self._partition = TopicName.parse(topic).partition
        self._max_entries = settings.max_pending_entries
        self._max_bytes = settings.max_pending_bytes
        timeout_ms = settings.receipt_timeout_ms
        self._receipt_timeout_ms = config.operation_timeout_ms if timeout_ms is None else timeout_ms
        self._changed = threading.Condition()
        self._pending: deque[SentEntry] = deque()
        self._pending_bytes = 0
        self._line: ProducerLine | None = None
        self._broken: PulsarError | None = None
        self._broken_at_ms = 0
        self._fatal: PulsarError | None = None
        self._trouble: Deadline | None = None
        self._backoff = Backoff()
        self._epoch = -1
        self._was_attached = False
        self._last_progress_ms = 0

    def open(self) -> "Publisher":
        """Creates the producer. Raises ProducerBusy, TopicNotFound, IncompatibleSchema and the like at once."""
        self._reattach()
        return self

    # ---- sending

    def send(
        self,
        metadata: MessageMetadata,
        payload: bytes | memoryview,
        message_count: int = 1,
        sequence_id: int | None = None,
    ) -> None:
        """Sends a payload as one entry; as `send_entry`.

        `metadata` says what the payload is (compression, num_messages_in_batch, key, …); name and sequence id are
        filled in, and version of the schema and publish time (this machine's clock) unless they are set. The sequence
        id is that of the first message, `next_sequence_id` by default.
        """
        first = self.next_sequence_id if sequence_id is None else sequence_id
        metadata.producer_name = self.producer_name
        metadata.sequence_id = first
        if self.schema_version and not metadata.schema_version:
            metadata.schema_version = self.schema_version
        if not metadata.HasField("publish_time"):
            metadata.publish_time = wall_ms()
        if self._settings.transaction is not None:
            metadata.txnid_most_bits, metadata.txnid_least_bits = self._settings.transaction
        highest = metadata.highest_sequence_id if metadata.HasField("highest_sequence_id") else None
        is_chunk = metadata.num_chunks_from_msg > 1
        self.send_entry(build_entry(metadata, payload), message_count, first, highest, is_chunk)

    def send_entry(
        self,
        entry: bytes | memoryview,
        message_count: int,
        sequence_id: int,
        highest_sequence_id: int | None = None,
        is_chunk: bool = False,
    ) -> None:
        """Sends a ready-made entry (from its checksum magic on) and returns while its receipt is on the way.

        Waits while too much is without receipt (PR-16). The entry's bytes must not change afterwards. `sequence_id` is
        that of its first message and grows from call to call (the chunks of one message share one).

        Raises MessageTooLarge before anything is sent, OperationTimeout when no receipt comes for as long as one may
        take, ClientClosed, and the first refusal of an earlier entry.
        """
        self._check_size(entry, is_chunk)
        sent = SentEntry(sequence_id, highest_sequence_id, message_count, is_chunk, entry)
        line: ProducerLine | None = None

        def accept() -> bool:
            nonlocal line
            if self._fits(len(entry)):
                line = self._append([sent])
                return True
            return False

        self._wait_until(accept, None)
        self._transmit(line, sent)

    def send_run(
        self, entries: Sequence[SentEntry], sends: Callable[[int, TransactionId | None], bytes | memoryview]
    ) -> None:
        """Sends entries as `send_entry` does, in one write; none of them a chunk. `sends` returns their SENDs for the
        id of a producer, and its transaction.

        No more than `max_run_entries` of together `max_run_bytes`. Raises MessageTooLarge before any of them is sent.
        """
        self._check_size(max((sent.entry for sent in entries), key=len), is_chunk=False)
        size = sum([len(sent.entry) for sent in entries])
        line: ProducerLine | None = None

        def accept() -> bool:
            nonlocal line
            if self._fits(size, len(entries)):
                line = self._append(entries)
                return True
            return False

        self._wait_until(accept, None)
        if line is not None:
            self._write(line, line.frames(sends))

    @property
    def max_run_entries(self) -> int:
        """Most entries of a run: half of those that may be without receipt, so that one run follows the other."""
        return self._max_entries // 2

    @property
    def max_run_bytes(self) -> int:
        """Most bytes of a run."""
        return self._max_bytes // 2

    @property
    def transaction(self) -> TransactionId | None:
        """Transaction in which all is sent."""
        return self._settings.transaction

    def _append(self, entries: Sequence[SentEntry]) -> ProducerLine | None:
        """Adds entries to those without receipt; returns where to send them, None for a line that is broken, since the
        next call attaches again and sends them with the others (the lock is held)."""
        if not self._pending:
            self._last_progress_ms = monotonic_ms()
        self._pending.extend(entries)
        self._pending_bytes += sum([len(sent.entry) for sent in entries])
        self.next_sequence_id = max(self.next_sequence_id, last_id_of(entries[-1]) + 1)
        return None if self._broken is not None else self._line

    def _transmit(self, line: ProducerLine | None, sent: SentEntry) -> None:
        if line is not None:
            self._write(line, line.frame(sent))

    def _write(self, line: ProducerLine, frames: list[bytes | memoryview]) -> None:
        try:
            line.connection.send(frames)
        except ConnectionLost as error:
            self._on_failure(line, error)

    def _check_size(self, entry: bytes | memoryview, is_chunk: bool) -> None:
        if excess := self._excess(entry, is_chunk):
            raise MessageTooLarge(*excess, self.topic)
        if self.topic_limit_bytes is not None and len(entry) > self.topic_limit_bytes and not is_chunk:
            raise MessageTooLarge(len(entry), self.topic_limit_bytes, self.topic, of_topic=True)

    def _excess(self, entry: bytes | memoryview, is_chunk: bool) -> tuple[int, int] | None:
        """(size, limit) of an entry that is above the broker's."""
        header = 10 if bytes(entry[:2]) == CHECKSUM_MAGIC else 4
        size = len(entry) - header
        # Chunks are cut before their chunk fields are known, so they may be longer by what a frame allows.
        limit = self.max_message_size_bytes + (FRAME_PADDING_BYTES // 2 if is_chunk else 0)
        return (size, limit) if size > limit else None

    def _fits(self, size: int, count: int = 1) -> bool:
        if not self._pending:
            return True
        return len(self._pending) + count <= self._max_entries and self._pending_bytes + size <= self._max_bytes

    def flush(self, timeout_ms: int | None = None) -> None:
        """Waits until everything sent has its receipt.

        Raises OperationTimeout when that takes longer than `timeout_ms`, or when no receipt at all comes for as long
        as one may take; and the first refusal.
        """
        self._wait_until(lambda: not self._pending, timeout_ms)

    @property
    def pending(self) -> int:
        """Counts the entries without receipt."""
        return len(self._pending) + len(self._refused)

    def _wait_until(self, done: Callable[[], bool], timeout_ms: int | None) -> None:
        """Waits for receipts until `done`, attaching again where needed, and splits and resends entries that were too
        large."""
        is_done = False

        def is_over() -> bool:
            nonlocal is_done
            if self._refused:
                return not self._pending
            is_done = done()
            return is_done

        while not is_done:
            self._wait_for_answers(is_over, timeout_ms)
            if not is_done:
                self._send_refused(timeout_ms)

    def _send_refused(self, timeout_ms: int | None) -> None:
        """Sends entries that were too large again in parts, in order, each part when the one before it is stored, since
        it may be too large, too. Nothing is without answer when it is called."""
        try:
            if not self._name_is_ours:  # others may have been stored behind them
                self._needs_new_name = True
                self._close_line()
                self._reattach()
            waiting = self._parts()
            while waiting:
                part = waiting.popleft()
                with self._changed:
                    line = self._append([part])
                self._transmit(line, part)
                self._wait_for_answers(lambda: not self._pending, timeout_ms)
                waiting.extendleft(reversed(self._parts()))
        except BaseException as error:  # waiting entries are known nowhere else
            self._fail(error if isinstance(error, PulsarError) else PulsarError(f"{self.topic}: interrupted"))
            raise

    def _parts(self) -> deque[SentEntry]:
        with self._changed:
            refused, self._refused = self._refused, []
        assert self._settings.split is not None or not refused
        return deque(part for sent in refused for part in self._settings.split(self, sent))  # type: ignore[misc]

    def _wait_for_answers(self, done: Callable[[], bool], timeout_ms: int | None) -> None:
        started_ms = monotonic_ms()
        while True:
            with self._changed:
                while True:
                    if self._fatal is not None:
                        raise self._fatal
                    if self._broken is not None:
                        break
                    if done():
                        return
                    self._changed.wait(self._patience_ms(started_ms, timeout_ms) / 1000)
            self._reattach()

    def _patience_ms(self, started_ms: int, timeout_ms: int | None) -> int:
        """Returns the time to wait for the next receipt. Raises OperationTimeout when it was too long already."""
        now_ms = monotonic_ms()
        silence_ms = self._receipt_timeout_ms
        left_ms = self._last_progress_ms + silence_ms - now_ms
        limit_ms = silence_ms
        if timeout_ms is not None and started_ms + timeout_ms - now_ms < left_ms:
            left_ms, limit_ms = started_ms + timeout_ms - now_ms, timeout_ms
        if left_ms > 0:
            return left_ms
        what = f"waiting for the receipt of sequence id {self._pending[0].sequence_id} on {self.topic}"
        where = str(self._line.connection.address) if self._line is not None else self._config.service_url
        raise Deadline(limit_ms, f"{what} ({len(self._pending)} entries without receipt)", where).error()

    # ---- reports of the reader thread

    def _on_receipts(self, line: ProducerLine, receipts: Sequence[CommandSendReceipt]) -> None:
        with self._changed:
            last: MessageIdData | None = None
            without = len(self._pending)
            for receipt in receipts:
                if line is not self._line or not self._pending:
                    break
                if self._accept_receipt(receipt) and signed(receipt.message_id.entryId) >= 0:
                    last = receipt.message_id
            if len(self._pending) < without:
                self._last_progress_ms = monotonic_ms()
                self._trouble = None
            if last is not None:
                self.last_message_id = MessageId(signed(last.ledgerId), signed(last.entryId), self._partition)
            self._changed.notify()

    def _accept_receipt(self, receipt: CommandSendReceipt) -> bool:
        """Returns whether a receipt is that of the first entry without one, which has it now (the lock is held)."""
        head, sequence_id = self._pending[0], receipt.sequence_id
        if sequence_id < head.sequence_id:
            return False  # of something sent twice
        if sequence_id > head.sequence_id:
            error = f"receipt {sequence_id} before that of {head.sequence_id} on {self.topic}"
            self._pass_over(head)
            self._break(ConnectionLost(error))
            return False
        entry_id = signed(receipt.message_id.entryId)
        if entry_id < 0:
            if head.sequence_id in self._passed:
                self._break(
                    SequenceIdPassed(
                        f"{self.topic} refused {described(head)}, has stored others of producer {self.producer_name} "
                        "behind it, and drops it as a duplicate now"
                    )
                )
                return False
            self.duplicates += 1
        self._pending.popleft()
        self._pending_bytes -= len(head.entry)
        self._stored_sequence_id = max(self._stored_sequence_id, last_id_of(head))
        return True

    def _on_refusal(self, line: ProducerLine, sequence_id: int, error: PulsarError) -> None:
        with self._changed:
            if line is not self._line:
                return
            # The id in a SEND_ERROR is that of the last message of a batch, or, for a checksum, of either.
            sent = next((one for one in self._pending if sequence_id in (one.sequence_id, last_id_of(one))), None)
            is_last = bool(self._pending) and sent is self._pending[-1]
            if (
                sent is not None
                and self._settings.split is not None
                and is_too_large(error)
                and not sent.is_chunk
                and (is_last or not self._name_is_ours)
            ):
                self._set_aside(sent)
                self._changed.notify()
                return
            if sent is not None and not is_last:
                self._pass_over(sent)
            self._break(judged(error, self.topic, sent))

    def _pass_over(self, sent: SentEntry) -> None:
        """Notes an entry that is not stored while those behind it may be (the lock is held)."""
        if self._name_is_ours:
            self._passed.add(sent.sequence_id)
        else:
            self._needs_new_name = True

    def _on_failure(self, line: ProducerLine, error: PulsarError) -> None:
        with self._changed:
            if line is self._line:
                self._break(error)

    def _break(self, error: PulsarError) -> None:
        """The line can no longer be used (the lock is held)."""
        if not is_final(error):
            if self._broken is None:
                self._broken_at_ms = monotonic_ms()
            self._broken = error
        else:
            self._fatal = self._fatal or error
        self._changed.notify()

    # ---- the producer on the broker

    def _reattach(self) -> None:
        """Creates the producer, again if need be, and sends the entries without receipt. Raises, and remembers, a final
        error."""
        trouble = self._trouble
        if trouble is None:
            what = f"creating a producer on {self.topic}" + (f", after: {self._broken}" if self._broken else "")
            trouble = self._trouble = self._until_overdue(what)
            self._backoff.reset()
        elif self._broken is not None:
            self._pause(trouble, self._broken)  # attached again, and broken again before any receipt
        while True:
            try:
                self._attach(trouble)
                return
            except PulsarError as error:
                self._directory.discard(self.topic)
                # Our own producer may live on for a moment on a connection that the broker has not closed yet, and so
                # may another process's of the same name.
                may_leave = isinstance(error, ProducerBusy) and (self._epoch > 0 or self._settings.deduplicated)
                if is_final(error) and not may_leave:
                    self._fail(naming_topic(error, self.topic))
                    raise
                self._pause(trouble, error)

    def _until_overdue(self, what: str) -> Deadline:
        """Returns the time to attach: until the next receipt is overdue, if one is due, and long enough to connect
        once."""
        where = self._config.service_url
        if not self._was_attached:
            return Deadline(self._config.operation_timeout_ms, what, where)
        with self._changed:
            now_ms, most_ms = monotonic_ms(), self._receipt_timeout_ms
            # No call has waited since the line broke, or has last been heard of: the next one only finds out now.
            progress_ms = self._last_progress_ms + now_ms - max(self._broken_at_ms, self._last_progress_ms)
            least_ms = min(self._config.connect_timeout_ms, most_ms)
            self._last_progress_ms = max(progress_ms, now_ms - most_ms + least_ms)
            return Deadline(most_ms, what, where, now_ms - self._last_progress_ms if self._pending else 0)

    def _pause(self, trouble: Deadline, error: PulsarError) -> None:
        try:
            self._backoff.pause(trouble, error)
        except PulsarError as timeout:
            self._fail(timeout)
            raise

    def _fail(self, error: PulsarError) -> None:
        with self._changed:
            self._fatal = self._fatal or error
            self._changed.notify()

    def _attach(self, deadline: Deadline) -> None:
        self._leave()
        connection = run_one(lambda: self._directory.connect(self.topic, deadline), deadline)
        transaction = self._settings.transaction
        line = ProducerLine(connection, self._on_receipts, self._on_failure, self._on_refusal, transaction)
        request_id = next_id()
        self._epoch += 1
        command = requests.producer(
            request_id,
            self.topic,
            line.producer_id,
            None if self._needs_new_name else self.producer_name or None,
            epoch=self._epoch,
            user_provided_name=self._name_is_ours,
            properties=self._settings.properties,
            encrypted=self._settings.encrypted,
            schema=self._settings.schema,
            in_transactions=self._settings.transaction is not None,
        )
        connection.attach_producer(line.producer_id, line)
        try:
            success = connection.request(command, request_id, deadline).producer_success
        except BaseException:
            line.close()
            raise
        if self._may_hide_a_refusal(success):
            line.close()
            self._needs_new_name = True
            self._attach(deadline)
            return
        if self._settings.deduplicated and success.last_sequence_id < self._stored_sequence_id:
            line.close()
            raise SequenceIdForgotten(
                self.topic, self.producer_name, self._stored_sequence_id, success.last_sequence_id
            )
        self._resume(line, success)

    def _may_hide_a_refusal(self, success: CommandProducerSuccess) -> bool:
        """Returns whether the broker, which knows only the last id of a name, may have refused an earlier entry that
        has no receipt."""
        with self._changed:
            if self._name_is_ours or not self._was_attached or len(self._pending) < 2:
                return False
            return success.last_sequence_id >= last_id_of(self._pending[1])

    def _resume(self, line: ProducerLine, success: CommandProducerSuccess) -> None:
        """Uses a new connection; resends the entries without a receipt."""
        with self._changed:
            if not self._was_attached:
                self.next_sequence_id = max(self.next_sequence_id, success.last_sequence_id + 1)
                self.last_sequence_id = self._stored_sequence_id = success.last_sequence_id
            self.producer_name = success.producer_name
            self._needs_new_name = False
            self.schema_version = success.schema_version if self._settings.schema is not None else b""
            self.max_message_size_bytes = line.connection.max_message_size_bytes
            self._was_attached = True
            self._line = line
            if line.lost is not None:  # said before the sink was attached
                raise line.lost
            self._broken = None
            self._set_aside_what_is_too_large()
            if not self._pending:
                self._trouble = None
            again = list(self._pending)
        for first in range(0, len(again), _RESEND_TOGETHER):
            pieces = [piece for sent in again[first : first + _RESEND_TOGETHER] for piece in line.frame(sent)]
            line.connection.send(pieces)

    def _set_aside_what_is_too_large(self) -> None:
        """Has entries sent in parts that a broker would close the connection for: it came back with a lower limit (the
        lock is held)."""
        if self._settings.split is None or (self._name_is_ours and len(self._pending) > 1):
            return
        for sent in [one for one in self._pending if self._excess(one.entry, one.is_chunk) and not one.is_chunk]:
            self._set_aside(sent)

    def _set_aside(self, sent: SentEntry) -> None:
        """Moves an entry to those that are sent in parts (the lock is held)."""
        self._pending.remove(sent)
        self._pending_bytes -= len(sent.entry)
        self._last_progress_ms = monotonic_ms()
        self._refused.append(sent)

    def _leave(self) -> None:
        """Closes the old producer, so that its name is free, if the broker can still be reached."""
        with self._changed:
            line, self._line = self._line, None
        if line is not None:
            line.close()

    def attach_again(self) -> None:
        """Waits for all receipts, closes the producer and creates it anew: a deduplicated one learns thereby if the
        topic does deduplicate. Raises SequenceIdForgotten if not, and as `flush`."""
        self.flush()
        self._close_line()
        self._reattach()

    def _close_line(self) -> None:
        """Closes the producer, of which nothing is without answer."""
        with self._changed:
            line, self._line = self._line, None
        if line is not None:
            line.close_and_wait()

    # ---- the end

    def close(self, timeout_ms: int | None = None) -> None:
        """Waits for all receipts (see `flush`), then closes the producer, so that its name is free. Idempotent."""
        if isinstance(self._fatal, ClientClosed):
            return
        try:
            self.flush(timeout_ms)
            self._close_line()
        finally:
            self.abort()

    def abort(self) -> None:
        """Closes the producer without waiting; entries without a receipt may or may not be stored. Idempotent."""
        self._leave()
        self._fail(ClientClosed(f"the publisher on {self.topic} is closed"))
        with self._changed:
            self._pending.clear()
            self._refused.clear()
            self._pending_bytes = 0

    def __enter__(self) -> "Publisher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abort()
