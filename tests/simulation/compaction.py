"""Compaction in a world: the real `Compactor`, a step at a time, and what must be left according to the account.

The account has its own idea of a compacted view: up to the horizon the last entry of each key, and what has no key as
the configuration says. Batches of the simulation cannot be read and stay.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from spark_pulsar.broker import effects as fx
from spark_pulsar.broker import events as ev
from spark_pulsar.ledger import compaction_records as kr
from spark_pulsar.server.compacting import Block, Compactor

from .account import Place, Sent
from .comparing import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.ledger.state import DurableState
    from spark_pulsar.ledger.storage import Storage

    from .account import Account
    from .judge import Judge

KEYS = ("a", "b", "c", "d")


def left(before: dict[Place, Sent], more: dict[Place, Sent], *, keeps_unkeyed: bool) -> dict[Place, Sent]:
    """What a compaction leaves of the view before it and of the entries after that, in order."""
    entries = {**before, **more}
    last = {sent.key: place for place, sent in entries.items() if sent.key is not None}
    return {
        place: sent
        for place, sent in entries.items()
        if (last[sent.key] == place if sent.key is not None else sent.count > 1 or keeps_unkeyed)
    }


@dataclass(slots=True)
class _Order:
    compactor: Compactor
    blocks: Generator[Block]
    may_go_on: bool = True


@dataclass(slots=True)
class Work:
    """The compactions that one core ordered. Nothing is done unless the world says so."""

    read: Callable[[int, int, int, int], list[EntryRun]]
    orders: dict[int, _Order] = field(default_factory=dict)

    @property
    def is_busy(self) -> bool:
        """Whether one of them can go on."""
        return any(order.may_go_on for order in self.orders.values())

    def take(self, effect: fx.Effect, random: Random) -> bool:
        """Take an order of the core; whether it was one of these."""
        if isinstance(effect, fx.CompactTopic):
            compactor = Compactor(effect, self.read)
            compactor.block_entries = random.choice((1, 1, 2, 5))
            self.orders[effect.token] = _Order(compactor, compactor.blocks())
        elif isinstance(effect, fx.ContinueCompaction):
            if effect.token in self.orders:
                self.orders[effect.token].may_go_on = True
        elif isinstance(effect, fx.StopCompaction):
            self._end(effect.token)
        else:
            return False
        return True

    def step(self, random: Random, *, fail: bool = False) -> ev.Event | None:
        """One of them goes on to its next block."""
        ready = [token for token, order in self.orders.items() if order.may_go_on]
        if not ready:
            return None
        token = random.choice(ready)
        order = self.orders[token]
        block = None if fail else next(order.blocks, None)
        if block is not None:
            order.may_go_on = False
            return ev.EntriesCompacted(token, *block)
        self._end(token)
        return ev.CompactionFailed(token, "simulated") if fail else ev.CompactionEnded(token, order.compactor.removed)

    def stop(self) -> None:
        """The process is gone."""
        for token in list(self.orders):
            self._end(token)

    def _end(self, token: int) -> None:
        order = self.orders.pop(token, None)
        if order is not None:
            order.blocks.close()


class CompactionJudge:
    """Judges the records of compactions (CMP-C1 … CMP-C4)."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.keeps_unkeyed = False
        self.handlers: dict[type, Callable[[Any], None]] = {
            kr.CompactionPrepared: self._prepared,
            kr.CompactionBegun: lambda record: judge.post("compaction_begun", record.topic_id, record.ledger_id),
            kr.CompactionFinished: self._finished,
            kr.CompactionAbandoned: lambda record: judge.post("compaction_dropped", record.topic_id),
            kr.CompactionForgotten: self._forgotten,
        }

    def takes(self, run: EntryRun) -> bool:
        """Whether entries are those of a compacted ledger; they are noted then."""
        if run.ledger_id not in self._judge.live.compacting:
            return False
        entries = [_taken_apart(run.entry(number)) for number in range(run.first_entry_id, run.end_entry_id)]
        self._judge.post("compaction_went_on", run.ledger_id, entries)
        return True

    def _prepared(self, record: kr.CompactionPrepared) -> None:
        self._judge.post("compaction_prepared", record.topic_id, (record.ledger_id, record.entry_id))

    def _finished(self, record: kr.CompactionFinished) -> None:
        live = self._judge.live
        name = live.topic_names[record.topic_id]
        topic = live.topics[name]
        horizon = (record.horizon_ledger_id, record.horizon_entry_id)
        if topic.horizon is None or horizon <= topic.horizon:
            raise Violation(f"{name} was compacted from {topic.horizon} to {horizon} (CMP-C4)")
        more = {place: sent for place, sent in topic.log.items() if topic.horizon < place <= horizon}
        view = left(topic.view, more, keeps_unkeyed=self.keeps_unkeyed)
        written = live.compacting[record.ledger_id][1]
        if written != [(place, sent.entry) for place, sent in view.items()]:
            found = [place for place, _ in written]
            raise Violation(f"{name}, compacted to {horizon}: {found} are left, should be {list(view)} (CMP-C1)")
        self._judge.post("compacted", record.topic_id, record.ledger_id, horizon, view)

    def _forgotten(self, record: kr.CompactionForgotten) -> None:
        name = self._judge.live.topic_names[record.topic_id]
        if not self._judge.is_deleting(name):
            raise Violation(f"the compacted view of {name} goes, and nobody asked for it")
        self._judge.post("compaction_forgotten", record.topic_id)

    def check_protected(self, name: str, places: list[Place]) -> None:
        """Violation when entries are given up that a compaction has not looked at (CMP-C4)."""
        horizon = self._judge.live.topics[name].horizon
        early = [] if horizon is None else [place for place in places if place > horizon]
        if early:
            raise Violation(f"{name}: {early} are given up before they were compacted (CMP-C4)")


def verify(account: Account, state: DurableState, storage: Storage) -> None:
    """What storage holds after a start is the whole view before a compaction, or the whole one after it."""
    for name, topic in account.topics.items():
        found = state.topics_by_name[name].compaction
        if (None if found is None else tuple(found.horizon)) != topic.horizon:
            raise Violation(f"{name} was compacted to {found}, should be {topic.horizon} (CMP-C4)")
        entries: list[tuple[Place, bytes]] = []
        info = None if found is None else found.ledger
        while info is not None and len(entries) < info.entries:
            runs = storage.read(info.ledger_id, len(entries), 100, 1 << 20)
            if not runs:
                raise Violation(f"{name}: the compacted entry {info.ledger_id}:{len(entries)} cannot be read")
            for run in runs:
                entries += [_taken_apart(run.entry(number)) for number in range(run.first_entry_id, run.end_entry_id)]
        if entries != [(place, sent.entry) for place, sent in topic.view.items()]:
            raise Violation(f"{name}: the compacted view holds {[place for place, _ in entries]}, not {[*topic.view]}")


def _taken_apart(entry: bytes) -> tuple[Place, bytes]:
    ledger_id, entry_id = kr.SOURCE.unpack_from(entry)
    return (ledger_id, entry_id), entry[kr.SOURCE.size :]
