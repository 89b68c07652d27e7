"""Turn budget: the bytes that one turn takes in (SEC-29: `rotation`), since its records are written in one submit, the
bytes read after which it comes, and the time that the commands of all connections in it take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from spark_pulsar.broker.topics.partition_creation import MOST_WRITTEN_BYTES
from spark_pulsar.broker.turn.events import (
    AcksReceived,
    ColumnarSendsReceived,
    CommandReceived,
    Event,
    Requested,
    SendsReceived,
)
from spark_pulsar.ledger.storage import MAX_SUBMIT_BYTES
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand

TURN_BYTES: Final = MAX_SUBMIT_BYTES // 4
"""Bytes to write that one turn takes in, from all connections; a frame more, and what a turn adds, leave room."""

TURN_READ_BYTES: Final = 1536 * 1024
"""Bytes read from connections after which a turn does not wait for the rest that the sockets hold: the disk writes the
first while the loop takes in the next. Producers with much in flight fill several megabytes at once."""

TURN_US: Final = 4_000
"""Microseconds that the commands of one turn take, from all connections, as estimated by `weight_us`: what came from
others meanwhile waits that long. SENDs do not count: they are taken in runs, and bounded by their bytes."""

_COMMAND_US: Final = 25
_COMMANDS_US: Final[Mapping[int, int]] = {
    BaseCommand.PING: 8,
    BaseCommand.PONG: 4,
    BaseCommand.FLOW: 8,
    BaseCommand.PRODUCER: 150,
    BaseCommand.SUBSCRIBE: 150,
    BaseCommand.UNSUBSCRIBE: 150,
    BaseCommand.SEEK: 150,
    BaseCommand.GET_SCHEMA: 250,
    BaseCommand.GET_OR_CREATE_SCHEMA: 500,
}
"""Microseconds that reading, carrying out and answering a command takes, by its type; others take `_COMMAND_US`.
Requests that are done in slices count their work there."""
_BYTES_A_US: Final = 64
"""Bytes of a command that protobuf reads in a microsecond when they are many small fields."""
_ACK_US: Final = 4
_RANGES_A_US: Final = 4

_KEEPS_ITS_TEXT: Final = frozenset(
    {
        BaseCommand.PRODUCER,
        BaseCommand.SUBSCRIBE,
        BaseCommand.GET_OR_CREATE_SCHEMA,
        BaseCommand.ACK,
        BaseCommand.SEEK,
    }
)
"""Commands that may write as much as they hold: names, properties, a schema, the bitmaps of batches. An ACK command
has properties or bitmaps; other acks are events of their own."""

_ACK_BYTES: Final = 32
"""Bytes of one acked range of entries, rounded up."""


def taken(happened: Sequence[Event]) -> int:
    """Counts the events that one turn takes, one at the least if there are any."""
    if len(happened) > 1:
        size_bytes = 0
        for index, event in enumerate(happened):
            size_bytes += _written_by(event)
            if size_bytes > TURN_BYTES and index:
                return index
    return len(happened)


def weight_us(event: Event, size_bytes: int) -> int:
    """Estimates the microseconds that an event takes which came in a frame of this size; 0 for SENDs."""
    if isinstance(event, CommandReceived):
        return _COMMANDS_US.get(event.command.type, _COMMAND_US) + size_bytes // _BYTES_A_US
    if isinstance(event, AcksReceived):
        return _ACK_US + len(event.ack.ranges) // _RANGES_A_US
    return 0 if isinstance(event, SendsReceived) else _COMMAND_US


def _written_by(event: Event) -> int:
    """Estimates the bytes that an event makes the core write; 0 when they are few."""
    if isinstance(event, SendsReceived | ColumnarSendsReceived):
        return event.size_bytes
    if isinstance(event, AcksReceived):
        return _ACK_BYTES * len(event.ack.ranges)
    if isinstance(event, CommandReceived):
        return event.command.ByteSize() if event.command.type in _KEEPS_ITS_TEXT else 0
    return MOST_WRITTEN_BYTES if isinstance(event, Requested) else 0
