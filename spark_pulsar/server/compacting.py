"""Compacting one topic: which message is the last of its key, and the entries that are left, block by block.

Two walks over what is to be compacted. The first notes for every key where its last message stands, in a private SQLite
database that keeps a bounded part of itself in memory; the second reads the entries again that have something left, and
takes the rest out of batches. Nothing here knows the broker: entries are read through a function, and blocks are taken
one at a time by whoever stores them.

A key's last message stays also when it is empty (Apache Pulsar 4.0.8 does the same: X16), but inside a batch it goes.
Of a chunked message all chunks go or stay together. What cannot be read stays.
"""

from __future__ import annotations

import sqlite3
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.ledger.compaction_records import SOURCE
from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.compacted import (
    NO_BATCH,
    Item,
    is_readable_batch,
    items_of,
    last_index_left,
    payload_of,
    repack_batch,
)
from spark_pulsar.wire.entries import metadata_of, text_of

if TYPE_CHECKING:
    from spark_pulsar.broker.effects import CompactTopic
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

Read = Callable[[int, int, int, int], "list[EntryRun]"]
"""`Storage.read`."""

BLOCK_BYTES: Final = 512 * 1024
BLOCK_ENTRIES: Final = 2_000
_READ_ENTRIES: Final = 1_000
_READ_BYTES: Final = 1024 * 1024
_GATHERED_KEYS: Final = 100_000
"""Keys noted in memory before they go to the database; some 300 bytes each."""
_CACHE_KIB: Final = 16 * 1024
_STEPS_A_LOOK: Final = 32
_BUSY_S: Final = 0.0005
_PAUSE_S: Final = 0.00005
_FLUSHED_ROWS: Final = 100

_TABLES: Final = """
CREATE TABLE last (key TEXT PRIMARY KEY, ledger INTEGER, entry INTEGER, item INTEGER, is_empty INTEGER, chunks TEXT)
    WITHOUT ROWID;
CREATE TABLE kept (ledger INTEGER, entry INTEGER, item INTEGER);
CREATE TABLE chunks (uuid TEXT, ledger INTEGER, entry INTEGER);
CREATE TABLE whole (uuid TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_LEFT: Final = """
SELECT ledger, entry, item FROM last WHERE NOT (is_empty AND item >= 0)
UNION ALL SELECT ledger, entry, item FROM kept
UNION ALL SELECT ledger, entry, -1 FROM chunks
    WHERE uuid NOT IN (SELECT uuid FROM whole) OR uuid IN (SELECT chunks FROM last WHERE chunks IS NOT NULL)
ORDER BY 1, 2, 3
"""


class Block(NamedTuple):
    """Entries for the compacted ledger, each with its source in front; `source` is that of the first. `last` is the
    source and the batch index of the last message of the block."""

    source: tuple[int, int]
    buffer: bytes
    starts: list[int]
    ends: list[int]
    message_counts: list[int]
    last: tuple[int, int, int]


class _Found(NamedTuple):
    """An entry and where it stood before any compaction."""

    ledger_id: int
    entry_id: int
    buffer: bytes
    start: int
    end: int


class Stopped(Exception):
    """Nobody wants the rest."""


class Compactor:
    """One compaction. `removed` counts messages, as far as they can be counted, and is right after the last block.
    `is_stopped` is asked again and again; `Stopped` is raised when it is so."""

    def __init__(self, task: CompactTopic, read: Read, is_stopped: Callable[[], bool] = lambda: False) -> None:
        self._task = task
        self._read = read
        self._is_stopped = is_stopped
        self.block_entries = BLOCK_ENTRIES
        """Most entries of a block."""
        self._gathered: dict[str, tuple[str, int, int, int, bool, str | None]] = {}
        self._seen = 0
        self._left = 0
        self._steps = 0
        self._busy_until = 0.0

    @property
    def removed(self) -> int:
        """Messages that were there and are not left."""
        return self._seen - self._left

    def blocks(self) -> Generator[Block]:
        """The blocks, in order. Raises what reading raises."""
        database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        try:
            database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.executescript(_TABLES)
            for found in self._entries():
                self._note(database, found)
            self._flush(database)
            yield from self._blocks_of(database.execute(_LEFT))
        finally:
            database.close()

    # Walking

    def _compacted_before(self) -> Iterator[_Found]:
        """What the compaction before this one left, oldest first."""
        for ledger_id, first, end in self._task.compacted:
            for run, index in self._walk(ledger_id, first, end):
                start = run.starts[index]
                source_ledger, source_entry = SOURCE.unpack_from(run.buffer, start)
                yield _Found(source_ledger, source_entry, run.buffer, start + SOURCE.size, run.ends[index])

    def _entries(self) -> Iterator[_Found]:
        """All entries that are to be compacted, oldest first."""
        yield from self._compacted_before()
        for ledger_id, first, end in self._task.ledgers:
            for run, index in self._walk(ledger_id, first, end):
                entry_id = run.first_entry_id + index
                yield _Found(ledger_id, entry_id, run.buffer, run.starts[index], run.ends[index])

    def _walk(self, ledger_id: int, first: int, end: int) -> Iterator[tuple[EntryRun, int]]:
        while first < end:
            for run in self._read_all(ledger_id, first, min(_READ_ENTRIES, end - first)):
                for index in range(min(len(run.starts), end - run.first_entry_id)):
                    self._give_way()
                    yield run, index
                first = run.end_entry_id

    def _read_all(self, ledger_id: int, entry_id: int, max_entries: int) -> list[EntryRun]:
        """Entries that are there, none left out: what is compacted is kept until it is done."""
        runs = self._read(ledger_id, entry_id, max_entries, _READ_BYTES)
        expected = entry_id
        for run in runs:
            if run.first_entry_id != expected:
                break
            expected = run.end_entry_id
        if expected == entry_id or len(runs) == 0 or expected != runs[-1].end_entry_id:
            raise CorruptMessage(f"entry {ledger_id}:{expected} is not where it should be")
        return runs

    def _give_way(self) -> None:
        """Sleep a moment after every half millisecond of work. Without sleeping, the interpreter would be taken back
        before a waiting thread has woken up, which gets it after 5 ms then."""
        self._steps += 1
        if self._steps % _STEPS_A_LOOK == 0:
            self._look_up()

    def _look_up(self) -> None:
        if self._is_stopped():
            raise Stopped
        if time.perf_counter() > self._busy_until:
            time.sleep(_PAUSE_S)
            self._busy_until = time.perf_counter() + _BUSY_S

    # The first walk

    def _note(self, database: sqlite3.Connection, found: _Found) -> None:
        place = found.ledger_id, found.entry_id
        try:
            metadata = metadata_of(found.buffer, found.start, found.end)
            if is_readable_batch(metadata):
                self._note_batch(database, metadata, found)
                return
        except CorruptMessage:
            self._keep(database, *place, NO_BATCH)
            self._seen += 1
            return
        self._seen += max(1, metadata.num_messages_in_batch)
        if metadata.num_chunks_from_msg > 1:
            self._note_chunk(database, metadata, place)
        elif metadata.encryption_keys and metadata.HasField("num_messages_in_batch"):
            self._keep(database, *place, NO_BATCH)
        elif metadata.HasField("partition_key"):
            self._put(database, text_of(metadata.partition_key), *place, NO_BATCH, False, None)
        elif self._task.keep_null_keys:
            self._keep(database, *place, NO_BATCH)

    def _note_batch(self, database: sqlite3.Connection, metadata: MessageMetadata, found: _Found) -> None:
        for index, item in enumerate(items_of(metadata, payload_of(found.buffer, found.start, found.end))):
            self._give_way()
            self._seen += not item.is_taken_out
            if item.key is not None:
                self._put(database, item.key, found.ledger_id, found.entry_id, index, item.is_empty, None)
            elif self._task.keep_null_keys and not item.is_taken_out:
                self._keep(database, found.ledger_id, found.entry_id, index)

    def _note_chunk(self, database: sqlite3.Connection, metadata: MessageMetadata, place: tuple[int, int]) -> None:
        uuid = text_of(metadata.uuid)
        database.execute("INSERT INTO chunks VALUES (?, ?, ?)", (uuid, *place))
        if metadata.chunk_id < metadata.num_chunks_from_msg - 1:
            return
        if metadata.HasField("partition_key"):
            database.execute("INSERT OR IGNORE INTO whole VALUES (?)", (uuid,))
            self._put(database, text_of(metadata.partition_key), *place, NO_BATCH, False, uuid)
        elif not self._task.keep_null_keys:
            database.execute("INSERT OR IGNORE INTO whole VALUES (?)", (uuid,))

    def _put(
        self,
        database: sqlite3.Connection,
        key: str,
        ledger_id: int,
        entry_id: int,
        index: int,
        is_empty: bool,
        chunks: str | None,
    ) -> None:
        gathered = self._gathered
        gathered[key] = (key, ledger_id, entry_id, index, is_empty, chunks)
        if len(gathered) >= _GATHERED_KEYS:
            self._flush(database)

    def _flush(self, database: sqlite3.Connection) -> None:
        rows = iter(self._gathered.values())
        database.execute("BEGIN")
        while some := list(islice(rows, _FLUSHED_ROWS)):
            database.executemany("INSERT OR REPLACE INTO last VALUES (?, ?, ?, ?, ?, ?)", some)
            self._look_up()
        database.execute("COMMIT")
        self._gathered.clear()

    @staticmethod
    def _keep(database: sqlite3.Connection, ledger_id: int, entry_id: int, index: int) -> None:
        database.execute("INSERT INTO kept VALUES (?, ?, ?)", (ledger_id, entry_id, index))

    # The second walk

    def _blocks_of(self, left: Iterator[tuple[int, int, int]]) -> Iterator[Block]:
        pieces: list[bytes] = []
        ends: list[int] = []
        starts: list[int] = []
        counts: list[int] = []
        source, size, last = (-1, -1), 0, b""
        for place, entry, messages in self._entries_left(left):
            source = source if starts else place
            last_place, last = place, entry
            starts.append(size)
            size += SOURCE.size + len(entry)
            ends.append(size)
            counts.append(messages)
            pieces += (SOURCE.pack(*place), entry)
            if size >= BLOCK_BYTES or len(starts) >= self.block_entries:
                yield Block(source, b"".join(pieces), starts, ends, counts, (*last_place, _last_index(last)))
                pieces, starts, ends, counts, size = [], [], [], [], 0
        if starts:
            yield Block(source, b"".join(pieces), starts, ends, counts, (*last_place, _last_index(last)))

    def _entries_left(self, left: Iterator[tuple[int, int, int]]) -> Iterator[tuple[tuple[int, int], bytes, int]]:
        """(source, entry, messages it counts as) of every entry with something left."""
        compacted_before = self._compacted_before()
        fresh_from = self._task.ledgers[0][:2] if self._task.ledgers else None
        window: deque[EntryRun] = deque()
        for place, rows in groupby(left, key=lambda row: (row[0], row[1])):
            kept = {row[2] for row in rows}
            self._give_way()
            if fresh_from is None or place < fresh_from:
                found = next(each for each in compacted_before if (each.ledger_id, each.entry_id) == place)
                entry = found.buffer[found.start : found.end]
            else:
                while window and (window[0].ledger_id != place[0] or window[0].end_entry_id <= place[1]):
                    window.popleft()
                if not window:
                    window.extend(self._read_all(*place, _READ_ENTRIES))
                entry = window[0].entry(place[1])
            if NO_BATCH in kept:
                messages = _messages_of(entry)
                self._left += messages
            else:
                metadata = metadata_of(entry, 0, len(entry))
                messages = metadata.num_messages_in_batch
                self._left += len(kept)
                if len(kept) < messages:
                    entry = self._cut(metadata, entry, kept)
            yield place, entry, messages

    def _cut(self, metadata: MessageMetadata, entry: bytes, kept: set[int]) -> bytes:
        """The batch without the messages that are not kept; itself when those went before."""
        items: list[Item] = []
        is_cut = False
        for item in items_of(metadata, payload_of(entry, 0, len(entry))):
            self._give_way()
            is_cut |= not item.is_taken_out and len(items) not in kept
            items.append(item)
        return repack_batch(metadata, items, kept) if is_cut else entry


def _messages_of(entry: bytes) -> int:
    try:
        return max(1, metadata_of(entry, 0, len(entry)).num_messages_in_batch)
    except CorruptMessage:
        return 1


def _last_index(entry: bytes) -> int:
    try:
        return last_index_left(entry, 0, len(entry))
    except CorruptMessage:
        return NO_BATCH
