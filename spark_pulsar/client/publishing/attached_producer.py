"""One producer on one connection, as a publisher uses it until it breaks."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from spark_pulsar.client.connections.connection import Connection
from spark_pulsar.client.connections.demultiplexer import next_id
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectionLost
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import TransactionId
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_head
from spark_pulsar.wire.pulsar_api_pb2 import CommandSendReceipt

_CLOSE_TIMEOUT_MS: Final = 5_000


class SentEntry(NamedTuple):
    """An entry without receipt."""

    sequence_id: int
    highest_sequence_id: int | None
    message_count: int
    is_chunk: bool
    entry: bytes | memoryview


class ProducerLine:
    """Producer on one connection, used by the publisher until it breaks. A sink of the connection."""

    def __init__(
        self,
        connection: Connection,
        on_receipts: Callable[["ProducerLine", Sequence[CommandSendReceipt]], None],
        on_failure: Callable[["ProducerLine", PulsarError], None],
        on_refusal: Callable[["ProducerLine", int, PulsarError], None],
        transaction: TransactionId | None = None,
    ) -> None:
        self.connection = connection
        self._transaction = transaction
        self.producer_id = next_id()
        self._on_receipts = on_receipts
        self._on_failure = on_failure
        self._on_refusal = on_refusal
        self.lost: PulsarError | None = None
        """Why the broker no longer knows this producer, as far as it has said so."""

    def receipts(self, receipts: Sequence[CommandSendReceipt]) -> None:
        """Called by the reader thread."""
        self._on_receipts(self, receipts)

    def send_failed(self, sequence_id: int, error: PulsarError) -> None:
        """Called by the reader thread."""
        self._on_refusal(self, sequence_id, error)

    def detached(self, error: PulsarError) -> None:
        """Called by the reader thread."""
        self.lost = error
        self._on_failure(self, error)

    def frame(self, sent: SentEntry) -> list[bytes | memoryview]:
        """Returns the SEND of an entry in two pieces, so that the entry is not copied."""
        command = requests.send(
            self.producer_id,
            sent.sequence_id,
            sent.message_count,
            sent.highest_sequence_id,
            sent.is_chunk,
            self._transaction,
        )
        return [payload_head(command, len(sent.entry)), sent.entry]

    def frames(self, sends: Callable[[int, TransactionId | None], bytes | memoryview]) -> list[bytes | memoryview]:
        """Returns the SENDs of a run of entries."""
        return [sends(self.producer_id, self._transaction)]

    def close(self) -> None:
        """Closes the producer without waiting."""
        self.connection.detach_producer(self.producer_id)
        if self.connection.alive:
            try:
                self.connection.send_command(requests.close_producer(next_id(), self.producer_id))
            except ConnectionLost:
                return  # and so the producer is gone

    def close_and_wait(self) -> None:
        """Closes the producer; returns when the broker has done so, or cannot be waited for any longer."""
        self.connection.detach_producer(self.producer_id)
        request_id = next_id()
        deadline = Deadline(_CLOSE_TIMEOUT_MS, "closing a producer", str(self.connection.address))
        try:
            self.connection.request(requests.close_producer(request_id, self.producer_id), request_id, deadline)
        except PulsarError:
            return  # everything has its receipt, and a broker that refuses has closed the producer before
