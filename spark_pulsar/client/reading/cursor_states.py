"""Exact states of durable subscriptions: parts of batches that are acknowledged, and acknowledgements of entries that
were received elsewhere (MOVE-7)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Final

from spark_pulsar.client.connections.connection import Connection
from spark_pulsar.client.connections.pipelined_requests import run_one
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.lookup import TopicDirectory
from spark_pulsar.client.reader_types import SubscriptionType
from spark_pulsar.client.reading.attached_consumers import Attachment
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.positions.ids import Position, signed
from spark_pulsar.wire.protocol import ack_sets, requests
from spark_pulsar.wire.protocol.frames import Frame, parse_command
from spark_pulsar.wire.pulsar_api_pb2 import CommandSubscribe

_PERMITS: Final = 100_000
_ACKED_TOGETHER: Final = 500


class BacklogScan(Attachment):
    """Exclusive consumer of a durable subscription that notes which entries it is sent in part, and acknowledges
    nothing. An Exclusive one counts no redeliveries, and is sent messages before their delivery time."""

    takes_messages = True

    def __init__(self, connection: Connection, topic: str, subscription: str) -> None:
        super().__init__(connection, topic, subscription)
        self._changed = threading.Condition()
        self._newest = Position(-1, -1)
        self.parts: dict[Position, int] = {}
        """The messages that are not acknowledged of an entry, as bits."""

    def messages(self, frames: list[Frame]) -> None:
        """Called by the reader thread. Entries of other consumers may come here, too."""
        count = 0
        for buffer, start, end in frames:
            message = parse_command(buffer, start, end)[0].message
            if message.consumer_id != self.consumer_id:
                continue
            count += 1
            position = Position(signed(message.message_id.ledgerId), signed(message.message_id.entryId))
            if message.ack_set:
                self.parts[position] = ack_sets.mask(message.ack_set)
            self._newest = position
        with self._changed:
            self._changed.notify()

    def detached(self, error: PulsarError) -> None:
        """Ends the wait for entries."""
        super().detached(error)
        with self._changed:
            self._changed.notify()

    def wait_for(self, last: Position, timeout_ms: int) -> None:
        """Waits until an entry at `last` or behind it was sent. Raises OperationTimeout when nothing more comes."""
        with self._changed:
            granted = Position(-2, -1)
            while self._newest < last:
                if self.lost is not None:
                    raise self.lost
                if self._newest > granted:
                    granted = self._newest
                    self.connection.send_command(requests.flow(self.consumer_id, _PERMITS))
                if not self._changed.wait(timeout_ms / 1000) and self._newest == granted:
                    what = f"waiting for the entries behind {granted} of subscription {self.subscription}"
                    raise Deadline(timeout_ms, f"{what} of {self.topic}", str(self.connection.address)).error()


class CursorStates:
    """Operations on the states of single subscriptions of topic partitions; each leaves no consumer attached."""

    def __init__(self, directory: TopicDirectory) -> None:
        self._directory = directory

    def parts(self, topic: str, subscription: str, last: Position, deadline: Deadline) -> dict[Position, int]:
        """Returns the batches of which a part is acknowledged up to `last`, an entry that is not acknowledged, with
        their other messages as bits. ConsumerBusy where a consumer is connected."""
        connection = run_one(lambda: self._directory.connect(topic, deadline), deadline)
        scan = BacklogScan(connection, topic, subscription)
        run_one(lambda: scan.attach_durable("earliest"), deadline)
        try:
            scan.wait_for(last, deadline.timeout_ms)
        except BaseException:
            scan.abandon()
            raise
        run_one(scan.detach, deadline)
        return {position: mask for position, mask in scan.parts.items() if position <= last}

    def acknowledge(
        self,
        topic: str,
        subscription: str,
        by: SubscriptionType,
        through: Position | None,
        entries: Iterable[Position],
        parts: Mapping[Position, int],
        within: Callable[[], Deadline],
    ) -> None:
        """Acknowledges parts of batches (bits are messages that stay), then single entries, then everything through a
        position; `within` makes the deadline of one request."""
        with self._attached(topic, subscription, by, within) as own:
            for position, mask in parts.items():
                run_one(partial(own.acknowledge_each, [position], mask), within())
            for together in _portions(entries):
                run_one(partial(own.acknowledge_each, together), within())
        if through is not None:  # Shared ones take no cumulative acknowledgement
            with self._attached(topic, subscription, CommandSubscribe.Exclusive, within) as own:
                run_one(partial(own.acknowledge_through, through, None), within())
            if by != CommandSubscribe.Exclusive:  # the type is that of the last consumer
                with self._attached(topic, subscription, by, within):
                    pass

    @contextmanager
    def _attached(
        self, topic: str, subscription: str, by: SubscriptionType, within: Callable[[], Deadline]
    ) -> Iterator[Attachment]:
        connection = run_one(partial(self._directory.connect, topic, deadline := within()), deadline)
        own = Attachment(connection, topic, subscription)
        run_one(partial(own.attach_durable, "earliest", by), deadline)
        try:
            yield own
        except BaseException:
            own.abandon()
            raise
        run_one(own.detach, within())


def _portions(entries: Iterable[Position]) -> Iterator[list[Position]]:
    rest = iter(entries)
    while together := list(islice(rest, _ACKED_TOGETHER)):
        yield together
