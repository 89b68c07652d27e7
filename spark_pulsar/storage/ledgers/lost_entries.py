"""Entries known to be lost: reading them is an error that says why, settling passes over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.state.damage import Damage, TopicDamaged
from spark_pulsar.ledger.state.durable_state import DurableState
from spark_pulsar.ledger.storage import StorageDamaged


class _Lost(NamedTuple):
    first: int
    end: int
    place: str
    text: str


class LostEntries:
    """Lost entries by ledger. The shell's thread adds them, any thread reads them: spans are replaced, never
    changed."""

    def __init__(self) -> None:
        self._ledgers: dict[int, tuple[_Lost, ...]] = {}

    def __bool__(self) -> bool:
        return bool(self._ledgers)

    def learn(self, state: DurableState) -> None:
        """Takes over the lost entries of a state."""
        for topic in state.topics.values():
            for damage in topic.damages:
                self.note(damage)

    def note(self, damage: Damage | TopicDamaged) -> None:
        """Something more is lost."""
        if damage.end > damage.first:
            lost = _Lost(damage.first, damage.end, damage.place, damage.text)
            self._ledgers[damage.ledger_id] = tuple(sorted((*self._ledgers.get(damage.ledger_id, ()), lost)))

    def check(self, ledger_id: int, entry_id: int) -> None:
        """StorageDamaged when the entry is lost."""
        for lost in self._ledgers.get(ledger_id, ()):
            if lost.first <= entry_id < lost.end:
                file, _, offset = lost.place.rpartition(":")
                raise StorageDamaged(file, int(offset), lost.text, [(ledger_id, lost.first, lost.end)])

    def before(self, run: EntryRun) -> EntryRun:
        """The part of a run before its first lost entry; its first one is not lost."""
        starts = [lost.first for lost in self._ledgers.get(run.ledger_id, ()) if lost.end > run.first_entry_id]
        return run if not starts else run.slice(run.first_entry_id, min(starts))

    def without(self, run: EntryRun) -> Iterator[EntryRun]:
        """The parts of a run that are not lost, rising."""
        at, end = run.first_entry_id, run.end_entry_id
        for lost in self._ledgers.get(run.ledger_id, ()):
            if lost.end > at and lost.first < end:
                if lost.first > at:
                    yield run.slice(at, lost.first)
                at = lost.end
        if at < end:
            yield run.slice(at, end)

    def covers(self, ledger_id: int, first: int, end: int) -> bool:
        """Returns whether all these entries are known to be lost."""
        for lost in self._ledgers.get(ledger_id, ()):
            if lost.first <= first < lost.end:
                first = lost.end
        return first >= end
