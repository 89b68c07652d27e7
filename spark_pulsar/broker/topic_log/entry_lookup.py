"""Lookup of one entry's bytes: last message id, seek by time, age of a backlog."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.entries.entry_bytes import metadata_of

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.model.positions.ids import Position

EntryRead = Callable[["bytes | None"], None]
"""Takes the bytes of an entry; None when it cannot be read."""


def cached(core: Core, position: Position) -> bytes | None:
    """Returns the entry if it is in memory."""
    run = core.cache.lookup(*position)
    return None if run is None else run.entry(position.entry_id)


def read(core: Core, position: Position, done: EntryRead) -> None:
    """Reads the entry from storage, in a later turn; the next one of its ledger if it was consumed by all and
    dropped."""

    def receive(runs: list[EntryRun] | None) -> None:
        if not runs:
            done(None)
        else:
            run = runs[0]
            done(run.entry(max(position.entry_id, run.first_entry_id)))

    core.read(*position, 1, 1, receive)


def fetch(core: Core, position: Position, done: EntryRead) -> None:
    """Finds the entry, at once when it is in memory, else in a later turn."""
    entry = cached(core, position)
    if entry is None:
        read(core, position, done)
    else:
        done(entry)


def batch_size(entry: bytes) -> int:
    """Returns the number of messages in an entry; 1 when it is no batch or cannot be understood."""
    return max(1, declared_batch_size(entry))


def declared_batch_size(entry: bytes) -> int:
    """Returns the number of messages in an entry that says to be a batch: presence decides (BAT-1); 0 for
    every other."""
    try:
        metadata = metadata_of(entry, 0, len(entry))
    except CorruptMessage:
        return 0
    return max(1, metadata.num_messages_in_batch) if metadata.HasField("num_messages_in_batch") else 0
