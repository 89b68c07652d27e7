"""Compaction in a world: the real `Compactor`, a step at a time, and what must be left according to the account.

The account has its own idea of a compacted view: up to the horizon the last message of each key, if it has a value, and
what has no key as the configuration says. Batches that can be read lose those of their messages that are not left;
others stay.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.broker.turn import events as ev
from spark_pulsar.ledger.state import compaction
from spark_pulsar.ledger.state import compaction as kr
from spark_pulsar.server.compaction.compactor import Compactor
from spark_pulsar.wire.entries.entry_bytes import build_entry, metadata_of
from spark_pulsar.wire.pulsar_api_pb2 import ZLIB, MessageMetadata, SingleMessageMetadata

from .account import Item, Place, Sent
from .comparing import Violation

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.ledger.state.durable_state import DurableState
    from spark_pulsar.ledger.storage import Storage

    from .account import Account
    from .judge import Judge

KEYS = ("a", "b", "c", "d")


_Last = tuple[Place, int]
"""A message: its entry, and the index in its batch, -1 when it is no batch."""


def left(before: dict[Place, Sent], more: dict[Place, Sent], *, keeps_unkeyed: bool) -> dict[Place, Sent]:
    """Compacts the view before and the entries after it, in order."""
    entries = {**before, **more}
    last: dict[str, _Last] = {}
    for place, sent in entries.items():
        if sent.key is not None:
            last[sent.key] = (place, -1)
        for index, item in enumerate(sent.items):
            if item.key is not None and not item.is_gone:
                last[item.key] = (place, index)
    found: dict[Place, Sent] = {}
    for place, sent in entries.items():
        if sent.items:
            batch = _batch_left(place, sent, last, keeps_unkeyed=keeps_unkeyed)
            if batch is not None:
                found[place] = batch
        elif sent.key is None:
            if sent.count > 1 or keeps_unkeyed:
                found[place] = sent
        elif last[sent.key] == (place, -1) and not _is_tombstone(sent):
            found[place] = sent
    return found


def _is_tombstone(sent: Sent) -> bool:
    """Whether an entry that is no batch has no value, by what its producer says, or else by its bytes."""
    metadata = metadata_of(sent.entry, 0, len(sent.entry))
    if metadata.HasField("uncompressed_size"):
        return metadata.uncompressed_size == 0
    return sent.entry == build_entry(metadata, b"")


def _batch_left(place: Place, sent: Sent, last: dict[str, _Last], *, keeps_unkeyed: bool) -> Sent | None:
    """A batch without the messages that are not left; None when there are none. A value that is no more goes too."""

    def stays(index: int, item: Item) -> bool:
        if item.is_gone or item.key is None:
            return not item.is_gone and keeps_unkeyed
        return last[item.key] == (place, index) and bool(item.payload)

    items = tuple(
        item if stays(index, item) else Item(item.key, item.payload, is_gone=True)
        for index, item in enumerate(sent.items)
    )
    if items == sent.items:
        return sent
    if all(item.is_gone for item in items):
        return None
    metadata = metadata_of(sent.entry, 0, len(sent.entry))
    payload = packed(metadata, items)
    return replace(sent, entry=build_entry(metadata, payload), items=items)


def packed(metadata: MessageMetadata, items: Iterable[Item]) -> bytes:
    """The payload of a batch; the metadata say how long it is without compression."""
    pieces: list[bytes] = []
    for item in items:
        single = SingleMessageMetadata(payload_size=0, compacted_out=True)
        if not item.is_gone:
            single = SingleMessageMetadata(payload_size=len(item.payload), partition_key=item.key)
        head = single.SerializeToString()
        pieces += (len(head).to_bytes(4, "big"), head, b"" if item.is_gone else item.payload)
    body = b"".join(pieces)
    metadata.uncompressed_size = len(body)
    return zlib.compress(body) if metadata.compression == ZLIB else body


@dataclass(slots=True)
class _Order:
    compactor: Compactor
    blocks: Generator[ev.EntriesCompacted]
    may_go_on: bool = True


@dataclass(slots=True)
class Work:
    """The compactions that one core ordered. Nothing is done unless the world says so."""

    read: Callable[[int, int, int, int], list[EntryRun]]
    orders: dict[int, _Order] = field(default_factory=dict)

    @property
    def is_busy(self) -> bool:
        """True when a compaction can go on."""
        return any(order.may_go_on for order in self.orders.values())

    def take(self, effect: fx.Effect, random: Random) -> bool:
        """Takes an order of the core; whether it was one of these."""
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
            return block
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
        """Tells whether entries are those of a compacted ledger; they are noted then."""
        if run.ledger_id not in self._judge.current.compacting:
            return False
        entries = [_taken_apart(run.entry(number)) for number in range(run.first_entry_id, run.end_entry_id)]
        self._judge.post("compaction_went_on", run.ledger_id, entries)
        return True

    def _prepared(self, record: kr.CompactionPrepared) -> None:
        self._judge.post("compaction_prepared", record.topic_id, (record.ledger_id, record.entry_id))

    def _finished(self, record: kr.CompactionFinished) -> None:
        current = self._judge.current
        name = current.topic_names[record.topic_id]
        topic = current.topics[name]
        horizon = (record.horizon_ledger_id, record.horizon_entry_id)
        if topic.horizon is None or horizon <= topic.horizon:
            raise Violation(f"{name} was compacted from {topic.horizon} to {horizon} (CMP-C4)")
        hold = topic.first_open()
        if hold is not None and hold <= horizon:
            raise Violation(f"{name} was compacted to {horizon}, and {hold} is of an open transaction (TX-19)")
        more = {place: sent for place, sent in topic.log.items() if topic.horizon < place <= horizon}
        more = {place: sent for place, sent in more.items() if place not in topic.withheld}
        view = left(topic.view, more, keeps_unkeyed=self.keeps_unkeyed)
        written = current.compacting[record.ledger_id][1]
        if written != [(place, sent.entry) for place, sent in view.items()]:
            found = [place for place, _ in written]
            raise Violation(f"{name}, compacted to {horizon}: {found} are left, should be {list(view)} (CMP-C1)")
        self._judge.sent.update((sent.entry, sent) for sent in view.values())
        self._judge.post("compacted", record.topic_id, record.ledger_id, horizon, view)

    def _forgotten(self, record: kr.CompactionForgotten) -> None:
        name = self._judge.current.topic_names[record.topic_id]
        if not self._judge.is_deleting(name):
            raise Violation(f"the compacted view of {name} goes without a request")
        self._judge.post("compaction_forgotten", record.topic_id)

    def check_protected(self, name: str, places: list[Place]) -> None:
        """Violation when entries are given up that a compaction has not looked at (CMP-C4)."""
        horizon = self._judge.current.topics[name].horizon
        early = [] if horizon is None else [place for place in places if place > horizon]
        if early:
            raise Violation(f"{name}: {early} are given up before they were compacted (CMP-C4)")


def verify(account: Account, state: DurableState, storage: Storage) -> None:
    """Verifies that storage holds, after a start, the whole view before a compaction, or the whole one after it."""
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
    ledger_id, entry_id = compaction.SOURCE.unpack_from(entry)
    return (ledger_id, entry_id), entry[compaction.SOURCE.size :]
