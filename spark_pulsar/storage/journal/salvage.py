"""Salvages the intact entries of a group that fails its checksum (DUR-4: `group_search` finds which do, and the torn
end).

A group is verified as a whole, but the entries in it carry the checksums of the clients that sent them. So of a damaged
group every intact entry is kept, and exactly the others are lost.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from crc32c import crc32c

from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.records import Record, RecordDamaged
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import decode_record
from spark_pulsar.ledger.state.compaction import SOURCE

from .groups import GROUP_HEADER_BYTES, records_of

_CHECKSUM_MAGIC: Final = b"\x0e\x01"
_CHECKSUM_END: Final = 6
_LENGTH_AT: Final = 32

EntrySpan = tuple[int, int, int]
"""(ledger id, first entry, end entry)"""


class SalvagedRecord(NamedTuple):
    """A record of a damaged group: where its body stands in the payload, and which of its entries fail their own
    checksum, or have none."""

    record: Record
    at: int
    end: int
    bad: list[EntrySpan]


class SalvagedGroup(NamedTuple):
    """The remains of a damaged group. `is_whole`: its records fill it, so that none is missing. `base` is the offset of
    the payload in its segment."""

    records: list[SalvagedRecord]
    is_whole: bool
    base: int

    @property
    def is_explained(self) -> bool:
        """Returns whether damaged entries explain why the group fails its checksum: then nothing else need be wrong."""
        return self.is_whole and any(salvaged.bad for salvaged in self.records)


def salvage_group(data: bytes, at: int) -> SalvagedGroup:
    """Salvages the group with these bytes, which stand at `at` in the segment."""
    promised = int.from_bytes(data[_LENGTH_AT : _LENGTH_AT + 4], "little")
    payload = data[GROUP_HEADER_BYTES : GROUP_HEADER_BYTES + promised]
    is_whole = len(payload) == promised
    if not is_whole:
        payload = data[GROUP_HEADER_BYTES:]
    salvaged: list[SalvagedRecord] = []
    try:
        for record_type, version, body_at, end in records_of(payload):
            record = decode_record(record_type, version, payload, body_at, end)
            salvaged.append(SalvagedRecord(record, body_at, end, bad_entries(record)))
    except RecordDamaged:
        is_whole = False
    return SalvagedGroup(salvaged, is_whole, at + GROUP_HEADER_BYTES)


def bad_entries(record: Record) -> list[EntrySpan]:
    """The entries of a record that fail the checksum their client gave them, or have none."""
    runs = record.entries.runs() if isinstance(record, EntriesAppended) else ()
    return [span for run in runs for span in _bad_of_run(run)]


def _bad_of_run(run: EntryRun) -> list[EntrySpan]:
    bad: list[EntrySpan] = []
    for entry_id in range(run.first_entry_id, run.end_entry_id):
        entry = run.entry(entry_id)
        if not _is_intact(entry) and not _is_intact(entry[SOURCE.size :]):
            if bad and bad[-1][2] == entry_id:
                bad[-1] = (run.ledger_id, bad[-1][1], entry_id + 1)
            else:
                bad.append((run.ledger_id, entry_id, entry_id + 1))
    return bad


def _is_intact(entry: bytes) -> bool:
    if entry[:2] != _CHECKSUM_MAGIC:
        return False
    return crc32c(entry[_CHECKSUM_END:]) == int.from_bytes(entry[2:_CHECKSUM_END], "big")
