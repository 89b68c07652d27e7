"""Surveys a data directory whose checkpoint and copy are both damaged: the whole entries, and their topics as far as
the journal names them. Topics, subscriptions and policies stood in the checkpoint alone; there is no repair then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spark_pulsar.ledger.entries import spans_of
from spark_pulsar.ledger.records import RecordDamaged
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import decode_record
from spark_pulsar.ledger.state.ledgers import LedgerOpened
from spark_pulsar.ledger.state.topics import TopicCreated
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.journal.group_search import mapped
from spark_pulsar.storage.journal.groups import SEGMENT_HEADER_BYTES, parse_segment_header, records_of, whole_groups
from spark_pulsar.storage.ledgers.files import whole_blocks

_MOST_SPANS = 20

Span = tuple[int, int]
"""First and end entry."""


class _Journal:
    """Contents of the journal's whole groups: names of topics, topics of ledgers, entries of ledgers."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.topics: dict[int, int] = {}
        self.entries: dict[int, list[Span]] = {}
        self.unread: list[str] = []

    def read(self, payload: bytes) -> None:
        """Takes the records of a group. RecordDamaged where this program does not understand them."""
        for record_type, version, at, end in records_of(payload):
            if record_type in EntriesAppended.TYPES:
                for span in spans_of(EntriesAppended.extents_of(record_type, version, payload, at)):
                    self._note(*span)
            elif record_type in (TopicCreated.TYPE, LedgerOpened.TYPE):
                record = decode_record(record_type, version, payload, at, end)
                if isinstance(record, TopicCreated):
                    self.names[record.topic_id] = record.name
                elif isinstance(record, LedgerOpened):
                    self.topics[record.ledger_id] = record.topic_id

    def _note(self, ledger_id: int, first: int, end: int) -> None:
        """Entries usually follow those before them: a journal may have tens of millions."""
        spans = self.entries.setdefault(ledger_id, [])
        if spans and spans[-1][1] == first:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((first, end))

    def owner(self, ledger_id: int) -> str:
        """The topic of a ledger, as far as it is known."""
        topic_id = self.topics.get(ledger_id)
        if topic_id is None:
            return "of a topic that only the checkpoint named"
        return f"of {self.names.get(topic_id, f'the topic with the id {topic_id}, which only the checkpoint named')}"


def survey(layout: Layout) -> Iterator[tuple[str, int, str]]:
    """File, offset and text for each ledger of which entries are whole, in its file or in the journal."""
    journal = _read_journal(layout)
    for ledger_id, path in layout.ledger_files().items():
        table = whole_blocks(path, ledger_id, path.stat().st_size)
        spans = list(zip(table.firsts, table.ends, strict=True))
        place = table.offsets[0] if spans else 0
        yield layout.relative(path), place, f"whole: {_extents(spans)} of ledger {ledger_id} {journal.owner(ledger_id)}"
    for ledger_id, spans in sorted(journal.entries.items()):
        text = f"whole: {_extents(spans)} of ledger {ledger_id} {journal.owner(ledger_id)}"
        yield layout.relative(layout.journal), 0, text
    if journal.unread:
        text = f"records of another version, not read: {len(journal.unread)} groups, the first {journal.unread[0]}"
        yield layout.relative(layout.journal), 0, text


def _read_journal(layout: Layout) -> _Journal:
    journal = _Journal()
    for number, path in layout.segments().items():
        with mapped(path) as data:
            header = parse_segment_header(bytes(data[:SEGMENT_HEADER_BYTES]))
            salt = None if header is None or header.number != number else header.salt
            for group in whole_groups(data, number, salt):
                try:
                    journal.read(group.payload)
                except RecordDamaged:  # whole, so that another version of the program wrote it
                    journal.unread.append(f"{layout.relative(path)}: group {group.number}")
    return journal


def _extents(spans: Iterable[Span]) -> str:
    joined: list[Span] = []
    for first, end in sorted(spans):
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((first, end))
    if not joined:
        return "no entries"
    stretches = ", ".join(f"{first} to {end - 1}" for first, end in joined[:_MOST_SPANS])
    more = len(joined) - _MOST_SPANS
    return f"entries {stretches}{f' and {more} stretches more' if more > 0 else ''}"
