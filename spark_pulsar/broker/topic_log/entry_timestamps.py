"""Timestamps of entries: publish time, which decides the age for time to live and quotas (TTL-3, BQ-2), and delivery
time, by their producers' clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.entries.delivery_times import delays_in
from spark_pulsar.wire.entries.entry_bytes import publish_time_of

if TYPE_CHECKING:
    from spark_pulsar.ledger.entries import EntryRun

_UNREADABLE: Final = 1 << 62
"""Publish time of an entry whose metadata cannot be read: it never expires, and hides nothing."""


def time_in(run: EntryRun, index: int) -> int:
    """Reads the publish time of the entry at an index of a run."""
    try:
        return publish_time_of(run.buffer, run.starts[index], run.ends[index])
    except CorruptMessage:
        return _UNREADABLE


def delivery_time_in(run: EntryRun, index: int) -> int:
    """Reads the delivery time of the entry at an index of a run; 0 without one (DEL-1)."""
    delays = delays_in(run.buffer, run.starts[index : index + 1], run.ends[index : index + 1])
    return delays[0].deliver_at_ms if delays else 0
