"""Opens a data directory: the checkpoint, then the journal's groups after it, as far as they are whole (DUR-3, DUR-4),
through the same `apply` as live. Sequence ids are among their records, so that nothing is read again (DED-7).

With a hole in the journal (`journal.walk`) the intact entries of the damaged groups are salvaged, later records are
applied as far as they fit (`ledger.state.lossy_replay`), and topics with missing records are reported, and become
read-only. Nothing is skipped in silence, and topics that the damage does not concern work as ever. A cursor goes no
further than its records say, so that on doubt entries come again (CUR-7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import compress

from spark_pulsar.ledger.entries import Extents, first_entries
from spark_pulsar.ledger.records import InvalidRecord, Record, RecordDamaged, UnknownRecord
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.apply import apply, decode_record
from spark_pulsar.ledger.state.damage import TopicDamaged
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.state.ledgers import LedgersTrimmed
from spark_pulsar.ledger.state.lossy_replay import LossyReplay
from spark_pulsar.ledger.storage import RecoveryReport, StorageDamaged, StorageVersionUnknown
from spark_pulsar.storage.checkpoint.checkpoint import JournalMark
from spark_pulsar.storage.disk.layout import Layout
from spark_pulsar.storage.journal.group_search import Hole, Replay, ReplayedSegment, mapped, walk_journal
from spark_pulsar.storage.journal.groups import Group, records_of
from spark_pulsar.storage.journal.run_index import RunIndex
from spark_pulsar.storage.journal.salvage import SalvagedGroup, salvage_group
from spark_pulsar.storage.ledgers.files import Extent, gaps


@dataclass(slots=True)
class Recovered:
    """Result of recovery: the replay, holes of the journal, and newly found damage, by topic."""

    replay: Replay
    holes: list[Hole] = field(default_factory=list)
    damages: list[TopicDamaged] = field(default_factory=list)


def recover(
    layout: Layout,
    mark: JournalMark,
    state: DurableState,
    extents: Mapping[int, Extent],
    index: RunIndex,
    report: RecoveryReport,
) -> Recovered:
    """Applies the groups after the checkpoint to the state, and indexes the entries of all groups in the segments in
    use.

    StorageVersionUnknown for records of a newer program, StorageDamaged when a verified record does not fit although
    the journal has no hole.
    """
    report.checkpoint_group = mark.last_group
    replayer = _Replayer(layout, mark, state, index, report)
    replay = walk_journal(layout, mark, report, replayer.on_group, replayer.on_hole)
    if replayer.lossy is not None:
        replayer.find_uncovered(extents)
        # The next group begins a new segment, so that the next checkpoint leaves the damaged ones behind.
        replay.cut = replay.has_holes = True
    state.finish_recovery()
    return Recovered(replay, replayer.holes, replayer.damages())


class _Replayer:
    """Takes groups and holes in order."""

    def __init__(
        self, layout: Layout, mark: JournalMark, state: DurableState, index: RunIndex, report: RecoveryReport
    ) -> None:
        self._layout = layout
        self._mark = mark
        self._state = state
        self._index = index
        self._report = report
        self._apply: Callable[[Record], object] = partial(apply, state)
        self.lossy: LossyReplay | None = None
        self.holes: list[Hole] = []
        self._topics_in_doubt = False

    def on_group(self, group: Group, segment: ReplayedSegment) -> None:
        """A whole group."""
        base, payload, number = group.payload_at, group.payload, segment.header.number
        after_checkpoint = group.number > self._mark.last_group
        report, body_at = self._report, 0
        try:
            for record_type, version, body_at, end in records_of(payload):
                if after_checkpoint:
                    record = decode_record(record_type, version, payload, body_at, end)
                    if self._apply(record) is not False:
                        self._note(record, number, base + body_at, end - body_at)
                    report.records += 1
                elif record_type in EntriesAppended.TYPES:
                    extents = EntriesAppended.extents_of(record_type, version, payload, body_at)
                    self._add(extents, number, base + body_at, end - body_at)
        except UnknownRecord as error:
            name = self._layout.relative(segment.path)
            raise StorageVersionUnknown(f"{name}, offset {base + body_at}: {error}") from error
        except (RecordDamaged, InvalidRecord) as error:
            raise StorageDamaged(self._layout.relative(segment.path), base + body_at, str(error)) from error
        report.groups += after_checkpoint

    def on_hole(self, hole: Hole) -> None:
        """Groups that are damaged or missing: from now on records may not fit."""
        self.holes.append(hole)
        if self.lossy is None:
            self.lossy = LossyReplay(self._state)
            self._apply = self.lossy.apply
        self.lossy.cause = f"{hole.file}:{hole.at}", hole.text
        salvaged = self._salvage(hole)
        # Up to the checkpoint the state is known: of those groups only entries may be missing, which shows at the end.
        is_unknown = hole.last_group > self._mark.last_group and (salvaged is None or not salvaged.is_whole)
        if hole.is_open or is_unknown:
            self._topics_in_doubt = True

    def _salvage(self, hole: Hole) -> SalvagedGroup | None:
        segment = hole.segment
        if segment is None or not hole.is_one_group:
            return None
        with mapped(segment.path) as data:
            salvaged = salvage_group(bytes(data[hole.at : hole.end]), hole.at)
        assert self.lossy is not None, "set by the first hole"
        after_checkpoint = hole.first_group > self._mark.last_group
        for record, at, end, bad in salvaged.records:
            if after_checkpoint:
                # Unverified records are believed only where they can do no harm.
                known = record if salvaged.is_explained else self.lossy.believed(record)
                applied = known is not None and self.lossy.continues(known) and self.lossy.apply(known)
                if not (applied and salvaged.is_explained):
                    for topic_id in self.lossy.topics_of(record):
                        self.lossy.lose(topic_id)
                if not applied:
                    continue
            self._note(record, segment.header.number, salvaged.base + at, end - at)
            for ledger_id, first, stop in bad:
                info = self._state.ledgers.get(ledger_id)
                if info is not None:
                    self.lossy.lose(info.topic_id, ledger_id, first, stop)
        segment.group_offsets.append(hole.at)
        return salvaged

    # The index

    def _note(self, record: Record, segment: int, offset: int, length: int) -> None:
        if type(record) is EntriesAppended:
            self._add(record.entries.extents(), segment, offset, length)
        elif type(record) is LedgersTrimmed:
            for ledger_id in record.ledger_ids:
                self._index.drop_ledger(ledger_id)

    def _add(self, extents: Extents, segment: int, offset: int, length: int) -> None:
        """Indexes the extents of a record whose ledgers exist."""
        ledgers = self._state.ledgers
        ledger_ids, firsts, _ = extents
        shared = len(ledger_ids) > 1
        if not ledgers.keys() >= set(ledger_ids):
            kept = [ledger_id in ledgers for ledger_id in ledger_ids]
            if not any(kept):
                return
            extents = list(compress(ledger_ids, kept)), list(compress(firsts, kept)), sum(kept)
        if self.lossy is not None:
            for ledger_id, first in first_entries(extents).items():
                self._index.fill_gap(ledger_id, first, segment, offset)
        self._index.add(extents, segment, offset, length, shared=shared)

    # Missing records

    def find_uncovered(self, extents: Mapping[int, Extent]) -> None:
        """Entries that the state knows and that stand neither in the journal nor in a ledger's file are lost."""
        assert self.lossy is not None, "nothing is missing without a hole"
        for ledger_id, info in self._state.ledgers.items():
            spans: list[tuple[int, int]] = []
            extent = extents.get(ledger_id)
            if extent is not None:
                spans.append((extent.first, extent.end))
            runs = self._index.ledgers.get(ledger_id)
            if runs is not None:
                spans += runs.spans()
            for first, end in gaps(spans, info.first_entry_id, info.entries):
                self.lossy.lose(info.topic_id, ledger_id, first, end)

    def damages(self) -> list[TopicDamaged]:
        """Records of the damage that no earlier opening found."""
        if self.lossy is None:
            return []
        self.lossy.lose_unbelieved()
        self.lossy.lose_open_transactions()
        if self._topics_in_doubt:
            for topic_id in self._state.topics:
                self.lossy.lose(topic_id)
        self._report.damage += [f"{hole.file}, offset {hole.at}: {hole.text}" for hole in self.holes]
        self._report.damage += [f"lost its meaning: {stray}" for stray in self.lossy.strays]
        damages: list[TopicDamaged] = []
        precise = {loss.topic_id for loss in self.lossy.losses if loss.ledger_id >= 0}
        for loss, (place, text) in self.lossy.losses.items():
            topic = self._state.topics.get(loss.topic_id)
            if topic is None or (loss.ledger_id >= 0 and loss.ledger_id not in self._state.ledgers):
                continue  # it was deleted or trimmed after the hole
            if loss.ledger_id < 0 and loss.topic_id in precise:
                continue  # said better by another one
            if all((known.ledger_id, known.first, known.end) != loss[1:] for known in topic.damages):
                damages.append(TopicDamaged(*loss, place, text))
        return damages
