"""Runs of entries that tests write apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_pulsar.ledger.entries import EntryRun


def run_of(
    ledger_id: int, first_entry_id: int, entries: Iterable[bytes], message_counts: Sequence[int] | None = None
) -> EntryRun:
    """Makes a run of separate entries, copied into one buffer."""
    parts = list(entries)
    starts: list[int] = []
    ends: list[int] = []
    at = 0
    for part in parts:
        starts.append(at)
        at += len(part)
        ends.append(at)
    return EntryRun(ledger_id, first_entry_id, b"".join(parts), starts, ends, message_counts)
