"""Publishing of stored entries to one topic partition, each once for every time that it is sent."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final

from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.demultiplexer import next_id
from spark_pulsar.client.connections.pipelined_requests import run_one
from spark_pulsar.client.connections.retry import Backoff
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectionLost, MessageTooLarge, naming_topic
from spark_pulsar.client.lookup import TopicDirectory
from spark_pulsar.client.publishing.attached_producer import ProducerLine, SentEntry
from spark_pulsar.client.publishing.refusals import is_final, judged
from spark_pulsar.model.errors import ProducerBusy, PulsarError
from spark_pulsar.model.limits import FRAME_PADDING_BYTES
from spark_pulsar.model.positions.ids import Position, signed
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import CommandSendReceipt

_MAX_PENDING_ENTRIES: Final = 1_000


class EntryPublisher:
    """A producer that sends nothing twice: a lost connection ends it, and its user finds out what was stored (MOVE-2).

    Receipts are those of entries in the order in which they were sent. Made by `PulsarClient.entry_publisher`; for one
    thread at a time. Use it as a context manager, or `close` it.
    """

    def __init__(
        self, config: ClientConfig, directory: TopicDirectory, topic: str, name: str, max_pending_bytes: int
    ) -> None:
        self.topic = topic
        self.last_sequence_id = -1
        """Last sequence id of this name that the broker knew when the producer was created; -1 for none."""
        self._config = config
        self._directory = directory
        self._name = name
        self._max_pending_bytes = max_pending_bytes
        self._max_message_size_bytes = 0
        self._changed = threading.Condition()
        self._pending: deque[SentEntry] = deque()
        self._pending_bytes = 0
        self._receipts: list[Position] = []
        self._broken: PulsarError | None = None
        self._line: ProducerLine | None = None

    def open(self) -> "EntryPublisher":
        """Creates the producer, waiting for another one of its name to be gone. Raises OperationTimeout, TopicNotFound
        and the like."""
        deadline = Deadline(
            self._config.operation_timeout_ms, f"creating a producer on {self.topic}", self._config.service_url
        )
        backoff = Backoff()
        while True:
            try:
                self._attach(deadline)
                return self
            except PulsarError as error:
                self._directory.discard(self.topic)
                if is_final(error) and not isinstance(error, ProducerBusy):
                    raise naming_topic(error, self.topic)  # noqa: B904 the same error
                backoff.pause(deadline, error)

    def _attach(self, deadline: Deadline) -> None:
        connection = run_one(lambda: self._directory.connect(self.topic, deadline), deadline)
        line = ProducerLine(connection, self._on_receipts, self._on_failure, self._on_refusal)
        request_id = next_id()
        command = requests.producer(request_id, self.topic, line.producer_id, self._name)
        connection.attach_producer(line.producer_id, line)
        self._line = line
        try:
            success = connection.request(command, request_id, deadline).producer_success
        except BaseException:
            self._line = None
            line.close()
            raise
        self.last_sequence_id = success.last_sequence_id
        self._max_message_size_bytes = connection.max_message_size_bytes

    def send(self, entries: Sequence[SentEntry]) -> None:
        """Sends entries, together, and returns while their receipts are on the way; waits while too much is without
        receipt.

        Raises MessageTooLarge before anything is sent, and as `receipts`.
        """
        for sent in entries:
            self._check_size(sent)
        first = 0
        while first < len(entries):
            end = self._accept(entries, first)
            assert self._line is not None
            self._line.connection.send([piece for sent in entries[first:end] for piece in self._line.frame(sent)])
            first = end

    def _check_size(self, sent: SentEntry) -> None:
        most = self._max_message_size_bytes + FRAME_PADDING_BYTES // 2
        if len(sent.entry) > most:
            raise MessageTooLarge(
                len(sent.entry), self._max_message_size_bytes, self.topic, "set maxMessageSize of the target as high"
            )

    def _accept(self, entries: Sequence[SentEntry], first: int) -> int:
        """Counts the entries from `first` on that fit among those without receipt in, at least one, waiting for
        room; returns the first that does not."""
        with self._changed:
            self._wait(lambda: not self._pending or self._fits(entries[first]))
            end = first
            while end < len(entries) and (end == first or self._fits(entries[end])):
                self._pending.append(entries[end])
                self._pending_bytes += len(entries[end].entry)
                end += 1
            return end

    def _fits(self, sent: SentEntry) -> bool:
        return (
            len(self._pending) < _MAX_PENDING_ENTRIES
            and self._pending_bytes + len(sent.entry) <= self._max_pending_bytes
        )

    def receipts(self, *, of_all: bool = False) -> list[Position]:
        """Returns the positions that have come since the last call; with `of_all` once none is missing.

        A position of -1:-1 is that of an entry that the broker dropped as a duplicate. Raises the refusal of an entry,
        ConnectionLost when the broker closed the producer, OperationTimeout when no receipt comes.
        """
        with self._changed:
            if of_all:
                self._wait(lambda: not self._pending)
            receipts, self._receipts = self._receipts, []
            if not receipts and self._broken is not None:
                raise self._broken
            return receipts

    def _wait(self, done: Callable[[], bool]) -> None:
        """Waits for receipts until `done` (the lock is held)."""
        while not done():
            if self._broken is not None:
                raise self._broken
            without = len(self._pending)
            if not self._changed.wait(self._config.operation_timeout_ms / 1000) and len(self._pending) == without:
                what = f"waiting for a receipt on {self.topic} ({without} entries without receipt)"
                raise Deadline(self._config.operation_timeout_ms, what, self._config.service_url).error()
        if self._broken is not None:
            raise self._broken

    # ---- reports of the reader thread

    def _on_receipts(self, line: ProducerLine, receipts: Sequence[CommandSendReceipt]) -> None:
        with self._changed:
            for receipt in receipts:
                if line is not self._line or not self._pending or self._broken is not None:
                    break
                self._on_receipt(receipt)
            self._changed.notify()

    def _on_receipt(self, receipt: CommandSendReceipt) -> None:
        """Takes the receipt of the first entry that has none (the lock is held)."""
        sent, message_id = self._pending[0], receipt.message_id
        if receipt.sequence_id != sent.sequence_id:
            self._broken = ConnectionLost(
                f"receipt {receipt.sequence_id} before that of {sent.sequence_id} on {self.topic}"
            )
            return
        self._pending.popleft()
        self._pending_bytes -= len(sent.entry)
        self._receipts.append(Position(signed(message_id.ledgerId), signed(message_id.entryId)))

    def _on_refusal(self, line: ProducerLine, sequence_id: int, error: PulsarError) -> None:
        with self._changed:
            if line is self._line and self._broken is None:
                sent = next((one for one in self._pending if one.sequence_id == sequence_id), None)
                self._broken = judged(error, self.topic, sent)
                self._changed.notify()

    def _on_failure(self, line: ProducerLine, error: PulsarError) -> None:
        with self._changed:
            if line is self._line and self._broken is None:
                self._broken = error
                self._changed.notify()

    # ---- the end

    def close(self) -> None:
        """Closes the producer; returns when the broker has done so, or cannot be waited for. Idempotent."""
        with self._changed:
            line, self._line = self._line, None
        if line is not None:
            line.close_and_wait()

    def __enter__(self) -> "EntryPublisher":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
