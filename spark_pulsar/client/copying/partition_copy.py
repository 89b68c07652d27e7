"""Copy of one topic partition, which may be killed at any moment and goes on where the target ends (MOVE-2, MOVE-4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final, NamedTuple

from crc32c import crc32c

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.retry import Backoff
from spark_pulsar.client.copying.position_map import PositionMap
from spark_pulsar.client.copying.sequences import Sequences
from spark_pulsar.client.copying.stored_entries import EntryRewriting, StoredEntry
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectionLost, EndNotReached
from spark_pulsar.client.publishing.attached_producer import SentEntry
from spark_pulsar.client.publishing.entry_publisher import EntryPublisher
from spark_pulsar.client.reading.positions import after_entry, beginning
from spark_pulsar.model.errors import PulsarError, TopicNotFound
from spark_pulsar.model.names import REPLICATOR_PREFIX, TopicName
from spark_pulsar.model.positions.ids import MessageId, Position

PRODUCER_NAME: Final = "spark-pulsar-copy"
"""Name of the producer of a copy: two copies of one partition exclude each other by it."""
REPLICATOR_NAME: Final = f"{REPLICATOR_PREFIX}.spark-pulsar"
"""Name of the producer whose entries a broker de-duplicates by the names in their metadata (DED-12)."""
_HIDDEN_TIMEOUT_MS: Final = 1_000
"""Time that the first entry behind the announced end may take to arrive."""
_SENT_TOGETHER: Final = 100
_SENT_TOGETHER_BYTES: Final = 256 * 1024

Progress = Callable[[int, int], None]
"""Called with the entries, and their bytes, that were copied since the last call."""


class CopyRefused(PulsarError):
    """The target of a copy holds entries that are not those of the source, or not all that it had."""


class Comparison(NamedTuple):
    """Source and target of a copied partition, read once more side by side."""

    entries: int
    messages: int
    size_bytes: int
    source_checksum: int
    """CRC32C of the entries of the source, one after the other, as they are published in the target."""
    target_checksum: int
    difference: str
    """The first difference in words, empty for none."""


class SourceEnd(NamedTuple):
    """The end of a source as positions "next to read"."""

    announced: MessageId
    """Behind the last message that its broker announces; everything before it arrives, or does not exist."""
    known: MessageId
    """Behind its last entry, if that is known: a marker of a transaction, or messages that are not announced, as those
    of an open transaction, or of a compacted topic on Apache Pulsar 4.2 (MOVE-8)."""


@dataclass(frozen=True)
class PartitionRoute:
    """One partition to copy: its names, and the differences between both clusters that its entries meet."""

    source: str
    target: str
    schema_versions: Mapping[bytes, bytes] = field(default_factory=dict)
    """Versions of schemas of the source that have another number in the target."""
    keeps_sequence_ids: bool = False
    """The target de-duplicates, and recognises afterwards what a producer of the source repeats (MOVE-5)."""


class PartitionCopy:
    """Copy of a partition up to an end. A call may be killed and made again, by another process, with its file."""

    def __init__(
        self, source: PulsarClient, target: PulsarClient, route: PartitionRoute, file: Path, memory_bytes: int
    ) -> None:
        """Opens or creates the file of positions. Raises PositionsUnusable, OSError."""
        self.positions = PositionMap(file, route.source, route.target)
        self._source = source
        self._target = target
        self._route = route
        self._rewriting = EntryRewriting(
            {old: new for old, new in route.schema_versions.items() if old != new}, route.keeps_sequence_ids
        )
        self._queued_bytes = max(1, memory_bytes // 2)

    def run(self, end: SourceEnd, progress: Progress = lambda entries, size_bytes: None) -> None:
        """Copies what the target lacks of the entries before `end`.

        Retries after lost connections for as long as an operation may take without progress. Raises CopyRefused where
        the target holds something else than the beginning of the source, MessageTooLarge, TopicNotFound and the like.
        """
        patience_ms = self._target.config.operation_timeout_ms
        backoff, deadline, entries = Backoff(), None, -1
        while True:
            try:
                self._copy(end, progress)
                return
            except PulsarError as error:
                if not error.retriable:
                    raise
                if deadline is None or self.positions.entries > entries:
                    what = f"copying {self._route.source}"
                    deadline = Deadline(patience_ms, what, self._target.config.service_url)
                    backoff.reset()
                entries = self.positions.entries
                backoff.pause(deadline, error)
            finally:
                self._target.discard([self._route.target])
                self.positions.sync()

    def close(self) -> None:
        """Closes the file."""
        self.positions.close()

    def _copy(self, end: SourceEnd, progress: Progress) -> None:
        with suppress(TopicNotFound):
            self._adopt(end)
        with closing(self._source_entries(self._next_source(), end)) as entries:
            first = next(entries, None)
            if first is not None:  # else no producer: the target may have been terminated since
                self._send(chain((first,), entries), end, progress)

    def _send(self, entries: Iterator[StoredEntry], end: SourceEnd, progress: Progress) -> None:
        route, known = self._route, self.positions.entries
        with ExitStack() as producers:
            publish_to = partial(self._target.entry_publisher, route.target, max_pending_bytes=self._queued_bytes)
            own = producers.enter_context(publish_to(PRODUCER_NAME))
            self._adopt(end)
            if self.positions.entries > known:
                raise ConnectionLost(f"{route.target} got more entries while a copy of it began")
            replicator = producers.enter_context(publish_to(REPLICATOR_NAME)) if route.keeps_sequence_ids else None
            sending = _Sending(self.positions, own, replicator, self._sequences(), progress)
            for together in _gathered(entries):
                sending.send(together)
            sending.finish()

    def _sequences(self) -> Sequences:
        """Returns the sequence ids that the target knows: none of an empty one."""
        return Sequences(self._target, self._route.target, is_empty=self.positions.last is None)

    def _next_source(self) -> MessageId:
        last = self.positions.last
        partition = TopicName.parse(self._route.source).partition
        return beginning(partition) if last is None else after_entry(MessageId(*last.last_source, partition))

    def _next_target(self) -> MessageId:
        last = self.positions.last
        partition = TopicName.parse(self._route.target).partition
        return beginning(partition) if last is None else after_entry(MessageId(*last.last_target, partition))

    def _source_entries(
        self, start: MessageId, end: SourceEnd, queued_bytes: int = 0
    ) -> Generator[StoredEntry, None, None]:
        """Yields the entries of the source from a position on, and behind its announced end those that come at once."""
        size = queued_bytes or self._queued_bytes
        if start < end.announced:
            with self._source.fetch(self._route.source, start, end.announced, max_queued_bytes=size) as fetch:
                try:
                    for block in fetch:
                        yield from self._rewriting.entries_of(block)
                except EndNotReached:  # its log ends before: a transaction was aborted there
                    pass
        start = max(start, end.announced)
        if start >= end.known:
            return
        patience_ms = _HIDDEN_TIMEOUT_MS
        with self._source.fetch(self._route.source, start, max_queued_bytes=size, idle_timeout_ms=patience_ms) as fetch:
            for block in fetch:
                for entry in self._rewriting.entries_of(block):
                    if entry.position >= end.known.position:
                        return
                    yield entry

    def _adopt(self, end: SourceEnd) -> None:
        """Adds entries to the positions that the target has and the file does not: those without receipt, or all where
        the file is new. Raises CopyRefused when they are not those of the source."""
        topic, last = self._route.target, self.positions.last
        newest = self._target.last_message_id(topic)
        known = None if last is None else last.last_target
        if known is not None and (newest is None or newest.position < known):
            raise CopyRefused(
                f"{topic} ends at {None if newest is None else newest.position}, before entry {known}, which was "
                f"copied to it: delete it and {self.positions.path}, and copy it anew"
            )
        if newest is None or newest.position == known:
            return
        size = self._queued_bytes
        with (
            self._target.fetch(topic, self._next_target(), after_entry(newest), max_queued_bytes=size) as theirs,
            closing(self._source_entries(self._next_source(), end, size)) as sources,
        ):
            for block in theirs:
                adopted: list[Position] = []
                stored = list(_AS_STORED.entries_of(block))
                for entry in stored:
                    source = next(sources, None)
                    if source is None or source.entry != entry.entry:
                        self.positions.add(adopted, [one.position for one in stored[: len(adopted)]])
                        raise CopyRefused(
                            f"{topic} holds entry {entry.position}, which is not the copy of "
                            f"{'anything' if source is None else f'entry {source.position}'} of {self._route.source}: "
                            "only an empty topic, or one that a copy of it has begun, can be its target"
                        )
                    adopted.append(source.position)
                self.positions.add(adopted, [one.position for one in stored])

    def compare(self, end: SourceEnd, progress: Progress = lambda entries, size_bytes: None) -> Comparison:
        """Reads both sides once more and compares them entry by entry: all that the source still has before `end`."""
        entries = messages = size_bytes = ours = theirs = 0
        difference = ""
        route, size = self._route, self._queued_bytes // 2
        source_start = beginning(TopicName.parse(route.source).partition)
        with closing(self._source_entries(source_start, end, size)) as sources:
            for source, copied in zip_longest(*self._side_by_side(sources)):
                if source is not None:
                    entries, messages, size_bytes = (
                        entries + 1,
                        messages + source.message_count,
                        size_bytes + len(source.entry),
                    )
                    ours = crc32c(source.entry, ours)
                    progress(1, len(source.entry))
                if copied is not None:
                    theirs = crc32c(copied.entry, theirs)
                if not difference and (source is None or copied is None or source.entry != copied.entry):
                    difference = _difference(source, copied)
        return Comparison(entries, messages, size_bytes, ours, theirs, difference)

    def _side_by_side(self, sources: Iterator[StoredEntry]) -> tuple[Iterator[StoredEntry], Iterator[StoredEntry]]:
        """Returns the entries of the source, and those of the target from the copy of the first of them on."""
        first = next(sources, None)
        if first is None:
            return iter(()), iter(())
        target = self.positions.target_of(first.position)

        def with_first() -> Iterator[StoredEntry]:
            yield first
            yield from sources

        return with_first(), iter(()) if target is None else self._copies(target)

    def _copies(self, start: Position) -> Iterator[StoredEntry]:
        partition = TopicName.parse(self._route.target).partition
        size = self._queued_bytes // 2
        at, end = MessageId(*start, partition), self._next_target()
        with self._target.fetch(self._route.target, at, end, max_queued_bytes=size) as fetch:
            try:
                for block in fetch:
                    yield from _AS_STORED.entries_of(block)
            except EndNotReached:
                return


_AS_STORED: Final = EntryRewriting({}, False)


class _Sending:
    """Entries on their way to the target, and their receipts."""

    def __init__(
        self,
        positions: PositionMap,
        own: EntryPublisher,
        replicator: EntryPublisher | None,
        sequences: Sequences,
        progress: Progress,
    ) -> None:
        self._positions = positions
        self._own = own
        self._replicator = replicator
        self._sequences = sequences
        self._progress = progress
        self._next_sequence_id = own.last_sequence_id + 1
        self._way = replicator or own
        self._on_the_way: deque[StoredEntry] = deque()
        self._is_first = True

    def send(self, entries: tuple[StoredEntry, ...]) -> None:
        """Sends entries. The first one goes alone: its receipt proves that nothing came between it and the last that
        the target was known to have."""
        if self._is_first:
            self._is_first = False
            self._send_by(self._way_of(entries[0]), entries[:1])
            self._note(self._way.receipts(of_all=True))
            entries = entries[1:]
        if self._replicator is None:
            self._send_by(self._own, entries)
        else:
            for entry in entries:
                self._send_by(self._way_of(entry), (entry,))
        self._note(self._way.receipts())

    def _way_of(self, entry: StoredEntry) -> EntryPublisher:
        """Returns the producer by which the broker stores an entry: it would drop one that its producer repeated while
        the source did not de-duplicate."""
        if self._replicator is None or (entry.is_judged and not self._sequences.rises(entry)):
            return self._own
        return self._replicator

    def _send_by(self, way: EntryPublisher, entries: tuple[StoredEntry, ...]) -> None:
        if way is not self._way:
            self._note(self._way.receipts(of_all=True))
            self._way = way
        if entries:
            self._on_the_way.extend(entries)
            way.send([self._sent(entry) for entry in entries])

    def _sent(self, entry: StoredEntry) -> SentEntry:
        if self._way is self._replicator:
            ids = entry.sequence_id, entry.highest_sequence_id
        else:
            ids = self._next_sequence_id, None
            self._next_sequence_id += 1
        return SentEntry(*ids, entry.message_count, entry.is_chunk, entry.entry)

    def finish(self) -> None:
        """Waits for all receipts."""
        self._note(self._way.receipts(of_all=True))

    def _note(self, receipts: list[Position]) -> None:
        if not receipts:
            return
        topic, last = self._own.topic, self._positions.last
        before = None if last is None else last.last_target
        entries = [self._on_the_way.popleft() for _ in receipts]
        for entry, receipt in zip(entries, receipts, strict=True):
            if receipt.entry_id < 0:
                raise CopyRefused(f"{topic}: the broker dropped the copy of entry {entry.position} as a duplicate")
            if before is not None and not _follows(before, receipt):
                raise CopyRefused(
                    f"{topic}: the copy of entry {entry.position} is {receipt}, not the next one after {before}: "
                    "another producer writes to the target, so delete it and copy it anew"
                )
            before = receipt
        self._positions.add([entry.position for entry in entries], receipts)
        self._progress(len(entries), sum(len(entry.entry) for entry in entries))


def _gathered(entries: Iterator[StoredEntry]) -> Iterator[tuple[StoredEntry, ...]]:
    """Yields the entries that one write sends: some, and not many bytes unless one entry has them."""
    together: list[StoredEntry] = []
    size_bytes = 0
    for entry in entries:
        together.append(entry)
        size_bytes += len(entry.entry)
        if len(together) >= _SENT_TOGETHER or size_bytes >= _SENT_TOGETHER_BYTES:
            yield tuple(together)
            together, size_bytes = [], 0
    if together:
        yield tuple(together)


def _follows(before: Position, after: Position) -> bool:
    """Returns whether there is nothing between two entries; a ledger that was closed may have ended anywhere."""
    return after == before.next_in_ledger or (after.ledger_id > before.ledger_id and after.entry_id == 0)


def _difference(source: StoredEntry | None, copied: StoredEntry | None) -> str:
    if source is None:
        assert copied is not None
        return f"the target has entry {copied.position} too many"
    if copied is None:
        return f"the target lacks entry {source.position} of the source"
    return f"entry {source.position} of the source differs from entry {copied.position} of the target"
