"""Compaction of one topic: finds the last message of each key, and makes the entries that are left, block by block.

Two walks over the entries. The first notes for every key the place of its last message, in a private SQLite
database that keeps a bounded part of itself in memory; the second reads the entries again that have something left, and
takes the rest out of batches. Nothing here knows the broker: entries are read through a function, and blocks are taken
one at a time.

A place is one number: that of the entry, counted from the first one that is compacted, and behind it the index in its
batch plus 1, or 0 for the entry as a whole.

A key's last message goes when it is empty: a tombstone, inside a batch and outside one (CMP-C1, X16).
Of a chunked message all chunks go or stay together. What cannot be read stays.
"""

from __future__ import annotations

import sqlite3
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import accumulate, groupby, islice
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_pulsar.broker.turn.events import EntriesCompacted
from spark_pulsar.ledger.state.compaction import SOURCE
from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.entries.batch_items import PORTION_ITEMS, key_of, pieces_left, portions_of
from spark_pulsar.wire.entries.compacted import NO_BATCH, is_readable_batch, repack_batch, unpacked_payload
from spark_pulsar.wire.entries.entry_bytes import metadata_of, payload_bytes_of, text_of

if TYPE_CHECKING:
    from spark_pulsar.broker.turn.effects import CompactTopic
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

Read = Callable[[int, int, int, int], "list[EntryRun]"]
"""`Storage.read`."""

BLOCK_BYTES: Final = 512 * 1024
BLOCK_ENTRIES: Final = 2_000
_READ_ENTRIES: Final = 1_000
_READ_BYTES: Final = 1024 * 1024
_GATHERED_KEYS: Final = 100_000
"""Keys noted in memory before they go to the database; some 200 bytes each."""
_GATHERED_BYTES: Final = 32 * 1024 * 1024
"""Bytes of these keys, when they are long."""
_REMEMBERED: Final = range(16, 65_536)
"""Numbers of messages with which a batch is taken apart once, and the bounds of its messages are noted. Other batches
are read again: for a few messages notes cost as much, and many are not to be in memory at the same time."""
_CACHE_KIB: Final = 16 * 1024
_STEPS_A_CHECK: Final = 32
_BUSY_S: Final = 0.0005
_PAUSE_S: Final = 0.00005
_FLUSHED_ROWS: Final = 100
_ITEM_BITS: Final = 32
_ITEM_MASK: Final = (1 << _ITEM_BITS) - 1
_DELETED: Final = -1
"""The place of a key whose last message is a tombstone."""

_TABLES: Final = """
CREATE TABLE last (key BLOB PRIMARY KEY, place INTEGER) WITHOUT ROWID;
CREATE TABLE kept (place INTEGER);
CREATE TABLE chunks (uuid TEXT, place INTEGER);
CREATE TABLE whole (uuid TEXT, place INTEGER);
CREATE TABLE batches (number INTEGER PRIMARY KEY, messages INTEGER, bounds BLOB);
"""
_LEFT: Final = """
SELECT place FROM last WHERE place >= 0
UNION ALL SELECT place FROM kept
UNION ALL SELECT place FROM chunks
    WHERE uuid NOT IN (SELECT uuid FROM whole)
    OR uuid IN (SELECT uuid FROM whole WHERE place IN (SELECT place FROM last))
ORDER BY 1
"""


class _PlacedEntry(NamedTuple):
    """An entry, and its place as a whole."""

    place: int
    buffer: bytes
    start: int
    end: int


class _Left(NamedTuple):
    """An entry with something left: its position before any compaction, the number of messages it counts as, the index
    of its last message."""

    source: tuple[int, int]
    entry: bytes
    messages: int
    last_index: int


class Stopped(Exception):
    """The rest of a compaction is not wanted."""


def is_tombstone(metadata: MessageMetadata, payload_bytes: int) -> bool:
    """Returns whether a message outside a batch deletes its key: it has no bytes, by what its producer says, as the
    Java client does, or by its payload where the producer leaves the size out (X16)."""
    return metadata.uncompressed_size == 0 if metadata.HasField("uncompressed_size") else payload_bytes == 0


class Compactor:
    """One compaction. `removed` counts messages, as far as they can be counted, and is right after the last block.
    `is_stopped` is called again and again; once it is true, `Stopped` is raised."""

    def __init__(self, task: CompactTopic, read: Read, is_stopped: Callable[[], bool] = lambda: False) -> None:
        self._token = task.token
        self._keep_null_keys = task.keep_null_keys
        self._read = read
        self._is_stopped = is_stopped
        self.block_entries = BLOCK_ENTRIES
        """Most entries of a block."""
        self._spans = [*task.compacted, *task.ledgers]
        self._compacted_spans = len(task.compacted)
        self._firsts = [0, *accumulate(end - first for _, first, end in self._spans)]
        """Numbers of the first entries of the spans."""
        self._gathered: dict[bytes | None, int] = {}
        self._key_bytes = 0
        self._seen = 0
        self._left = 0
        self._steps = 0
        self._busy_until = 0.0

    @property
    def removed(self) -> int:
        """Messages that compaction removed."""
        return self._seen - self._left

    def blocks(self) -> Generator[EntriesCompacted]:
        """Makes the blocks, in order. Raises what reading raises."""
        database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        try:
            database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.executescript(_TABLES)
            for entry in self._entries():
                self._note(database, entry)
            self._flush(database)
            yield from self._blocks_of(database)
        finally:
            database.close()

    # Walking

    def _entries(self) -> Iterator[_PlacedEntry]:
        """Reads all entries, oldest first: those that the compaction before this one left, then others."""
        number = 0
        for index, (ledger_id, first, end) in enumerate(self._spans):
            head = SOURCE.size if index < self._compacted_spans else 0
            while first < end:
                for run in self._read_all(ledger_id, first, min(_READ_ENTRIES, end - first)):
                    count = min(len(run.starts), end - run.first_entry_id)
                    for at, stop in zip(run.starts[:count], run.ends[:count], strict=True):
                        self._yield()
                        yield _PlacedEntry(number << _ITEM_BITS, run.buffer, at + head, stop)
                        number += 1
                    first = run.end_entry_id

    def _read_all(self, ledger_id: int, entry_id: int, max_entries: int) -> list[EntryRun]:
        """Reads entries without a gap: entries are kept until their compaction is done."""
        runs = self._read(ledger_id, entry_id, max_entries, _READ_BYTES)
        expected = entry_id
        for run in runs:
            if run.first_entry_id != expected:
                break
            expected = run.end_entry_id
        if expected == entry_id or len(runs) == 0 or expected != runs[-1].end_entry_id:
            raise CorruptMessage(f"entry {ledger_id}:{expected} is not where it should be")
        return runs

    def _yield(self) -> None:
        """Sleeps a moment after every half millisecond of work. Without sleeping, the interpreter would be taken back
        before a waiting thread has woken up, which gets it after 5 ms then."""
        self._steps += 1
        if self._steps % _STEPS_A_CHECK == 0:
            self._pause_when_due()

    def _pause_when_due(self) -> None:
        if self._is_stopped():
            raise Stopped
        if time.perf_counter() > self._busy_until:
            time.sleep(_PAUSE_S)
            self._busy_until = time.perf_counter() + _BUSY_S

    # The first walk

    def _note(self, database: sqlite3.Connection, entry: _PlacedEntry) -> None:
        """Notes the keys of an entry; without one it stays by `topicCompactionRetainNullKey` alone (CMP-C2), and always
        when it is encrypted or cannot be read (CMP-C3)."""
        messages = 1
        try:
            metadata = metadata_of(entry.buffer, entry.start, entry.end)
            messages = max(1, metadata.num_messages_in_batch)
            if is_readable_batch(metadata):
                self._note_batch(database, metadata, entry)
                return
        except CorruptMessage:
            self._keep(database, [entry.place])
            self._seen += messages
            return
        self._seen += messages
        if metadata.num_chunks_from_msg > 1:
            self._note_chunk(database, metadata, entry.place)
        elif metadata.encryption_keys and metadata.HasField("num_messages_in_batch"):
            self._keep(database, [entry.place])
        elif (key := key_of(metadata)) is not None:
            payload_bytes = payload_bytes_of(entry.buffer, entry.start, entry.end)
            self._put(database, key, _DELETED if is_tombstone(metadata, payload_bytes) else entry.place)
        elif self._keep_null_keys:
            self._keep(database, [entry.place])

    def _note_batch(self, database: sqlite3.Connection, metadata: MessageMetadata, entry: _PlacedEntry) -> None:
        gathered, seen, bounds = self._gathered, 0, array("I", (0,))
        is_remembered = metadata.num_messages_in_batch in _REMEMBERED
        data = unpacked_payload(metadata, entry.buffer, entry.start, entry.end)
        for portion in portions_of(data, metadata.num_messages_in_batch):
            self._pause_when_due()
            if is_remembered:
                bounds.extend(portion.bounds[1:])
            keys, place = portion.keys, entry.place + 1 + portion.first
            seen += len(keys) - len(portion.taken_out)
            gathered.update(zip(keys, range(place, place + len(keys)), strict=True))
            for index in portion.empty:
                if gathered[keys[index]] == place + index:
                    gathered[keys[index]] = _DELETED
            if gathered.pop(None, None) is not None and self._keep_null_keys:
                passed = set(portion.taken_out)
                places = [place + index for index, key in enumerate(keys) if key is None and index not in passed]
                self._keep(database, places)
            self._bound(database, sum(map(len, filter(None, keys))))
        self._seen += seen
        if is_remembered:
            row = entry.place >> _ITEM_BITS, seen, bounds.tobytes()
            database.execute("INSERT INTO batches VALUES (?, ?, ?)", row)

    def _note_chunk(self, database: sqlite3.Connection, metadata: MessageMetadata, place: int) -> None:
        uuid = text_of(metadata.uuid)
        database.execute("INSERT INTO chunks VALUES (?, ?)", (uuid, place))
        if metadata.chunk_id < metadata.num_chunks_from_msg - 1:
            return
        key = key_of(metadata)
        if key is not None:
            database.execute("INSERT INTO whole VALUES (?, ?)", (uuid, place))
            self._put(database, key, place)
        elif not self._keep_null_keys:
            database.execute("INSERT INTO whole VALUES (?, NULL)", (uuid,))

    def _put(self, database: sqlite3.Connection, key: bytes, place: int) -> None:
        self._gathered[key] = place
        self._bound(database, len(key))

    def _bound(self, database: sqlite3.Connection, key_bytes: int) -> None:
        self._key_bytes += key_bytes
        if len(self._gathered) >= _GATHERED_KEYS or self._key_bytes >= _GATHERED_BYTES:
            self._flush(database)

    def _flush(self, database: sqlite3.Connection) -> None:
        rows = iter(self._gathered.items())
        database.execute("BEGIN")
        while some := list(islice(rows, _FLUSHED_ROWS)):
            database.executemany("INSERT OR REPLACE INTO last VALUES (?, ?)", some)
            self._pause_when_due()
        database.execute("COMMIT")
        self._gathered.clear()
        self._key_bytes = 0

    @staticmethod
    def _keep(database: sqlite3.Connection, places: list[int]) -> None:
        database.executemany("INSERT INTO kept VALUES (?)", zip(places, strict=True))

    # The second walk

    def _blocks_of(self, database: sqlite3.Connection) -> Iterator[EntriesCompacted]:
        pieces: list[bytes] = []
        ends: list[int] = []
        starts: list[int] = []
        counts: list[int] = []
        first, last, size = (-1, -1), (-1, -1, NO_BATCH), 0
        for left in self._entries_left(database):
            first = first if starts else left.source
            last = (*left.source, left.last_index)
            starts.append(size)
            size += SOURCE.size + len(left.entry)
            ends.append(size)
            counts.append(left.messages)
            pieces += (SOURCE.pack(*left.source), left.entry)
            if size >= BLOCK_BYTES or len(starts) >= self.block_entries:
                yield EntriesCompacted(self._token, first, b"".join(pieces), starts, ends, counts, last)
                pieces, starts, ends, counts, size = [], [], [], [], 0
        if starts:
            yield EntriesCompacted(self._token, first, b"".join(pieces), starts, ends, counts, last)

    def _entries_left(self, database: sqlite3.Connection) -> Iterator[_Left]:
        """Makes every entry with something left."""
        window: deque[EntryRun] = deque()
        for number, rows in groupby(database.execute(_LEFT), key=lambda row: row[0] >> _ITEM_BITS):
            kept = [(row[0] & _ITEM_MASK) - 1 for row in rows]
            self._yield()
            source, entry = self._entry(number, window)
            if kept[0] == NO_BATCH:
                left = self._unchanged(source, entry)
                self._left += left.messages
            else:
                remembered = database.execute("SELECT messages, bounds FROM batches WHERE number = ?", (number,))
                left = self._cut(source, entry, kept, remembered.fetchone())
                self._left += len(kept)
            yield left

    def _entry(self, number: int, window: deque[EntryRun]) -> tuple[tuple[int, int], bytes]:
        """Reads an entry and its source, by number; numbers rise. `window` holds the runs that were read last."""
        index = bisect_right(self._firsts, number, 0, len(self._spans)) - 1
        ledger_id, first, end = self._spans[index]
        entry_id = first + number - self._firsts[index]
        while window and (window[0].ledger_id != ledger_id or window[0].end_entry_id <= entry_id):
            window.popleft()
        if not window:
            window.extend(self._read_all(ledger_id, entry_id, min(_READ_ENTRIES, end - entry_id)))
        entry = window[0].entry(entry_id)
        if index < self._compacted_spans:
            return SOURCE.unpack_from(entry), entry[SOURCE.size :]
        return (ledger_id, entry_id), entry

    @staticmethod
    def _unchanged(source: tuple[int, int], entry: bytes) -> _Left:
        """Keeps an entry as it is, without decoding its payload."""
        try:
            metadata = metadata_of(entry, 0, len(entry))
        except CorruptMessage:
            return _Left(source, entry, 1, NO_BATCH)
        is_opened = metadata.HasField("num_messages_in_batch") and not is_readable_batch(metadata)
        messages = metadata.num_messages_in_batch
        return _Left(source, entry, max(1, messages), messages - 1 if is_opened else NO_BATCH)

    def _cut(
        self, source: tuple[int, int], entry: bytes, kept: list[int], remembered: tuple[int, bytes] | None
    ) -> _Left:
        """Makes a batch of the messages that are kept; the batch itself when the others went before (CMP-C3)."""
        metadata = metadata_of(entry, 0, len(entry))
        messages = metadata.num_messages_in_batch
        alive = remembered[0] if remembered else 0
        if len(kept) in (messages, alive):
            return _Left(source, entry, messages, kept[-1])
        data = unpacked_payload(metadata, entry, 0, len(entry))
        pieces: list[bytes] = []
        taken = 0
        for first, bounds, more_alive in self._bounds_of(data, messages, remembered):
            self._pause_when_due()
            alive += more_alive
            end = bisect_left(kept, first + len(bounds) - 1, taken)
            pieces += pieces_left(data, first, bounds, kept[taken:end])
            taken = end
        if alive > len(kept):
            entry = repack_batch(metadata, pieces)
        return _Left(source, entry, messages, kept[-1])

    @staticmethod
    def _bounds_of(
        data: bytes, messages: int, remembered: tuple[int, bytes] | None
    ) -> Iterator[tuple[int, Sequence[int], int]]:
        """Walks over a batch, portion by portion: the index of the first message, bounds, and the number of messages to
        add to those that are not taken out."""
        if remembered is None:
            for portion in portions_of(data, messages):
                yield portion.first, portion.bounds, len(portion.keys) - len(portion.taken_out)
            return
        bounds = array("I")
        bounds.frombytes(remembered[1])
        for first in range(0, messages, PORTION_ITEMS):
            yield first, bounds[first : first + PORTION_ITEMS + 1], 0
