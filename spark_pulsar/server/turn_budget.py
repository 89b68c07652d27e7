"""Turn budget: the bytes that one turn takes in, since its records are written in one submit, and the bytes read after
which it comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spark_pulsar.broker.topics.partitions import MOST_WRITTEN_BYTES
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


def _written_by(event: Event) -> int:
    """Estimates the bytes that an event makes the core write; 0 when they are few."""
    if isinstance(event, SendsReceived | ColumnarSendsReceived):
        return event.size_bytes
    if isinstance(event, AcksReceived):
        return _ACK_BYTES * len(event.ack.ranges)
    if isinstance(event, CommandReceived):
        return event.command.ByteSize() if event.command.type in _KEEPS_ITS_TEXT else 0
    return MOST_WRITTEN_BYTES if isinstance(event, Requested) else 0
