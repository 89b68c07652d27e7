"""Compaction: a second copy of a topic that holds the last message of each key (CMP-C1 … CMP-C6).

The shell reads and compares entries: `CompactTopic` orders it, `EntriesCompacted` brings the remaining messages block
by block, and `ContinueCompaction` requests the next block when the one before it is on disk, so that memory is bounded.
Blocks become entries of a ledger of their own; one record lets it replace the compacted ledger before it. A crash
leaves an unfinished ledger, which is dropped at the start. Entries after the horizon are held until the next
compaction, as if a subscription stood there (`TopicState.slowest_mark_delete`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities import registry
from spark_pulsar.broker.topic_log import retention
from spark_pulsar.broker.turn.effects import CompactTopic, ContinueCompaction, StopCompaction
from spark_pulsar.broker.turn.slices import every
from spark_pulsar.ledger.entries import EntryRun
from spark_pulsar.ledger.state.appending import EntriesAppended
from spark_pulsar.ledger.state.compaction import (
    CompactionAbandoned,
    CompactionBegun,
    CompactionFinished,
    CompactionPrepared,
)
from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import EARLIEST, Position

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.broker.turn.events import CompactionEnded, CompactionFailed, EntriesCompacted
    from spark_pulsar.ledger.state.topics import TopicState

NOT_RUN: Final = "NOT_RUN"
RUNNING: Final = "RUNNING"
SUCCESS: Final = "SUCCESS"
ERROR: Final = "ERROR"

_CHECKS_A_TURN: Final = 200
Span = tuple[int, int, int]
"""(ledger id, first, end) of entries, end exclusive."""
_NOTHING_LEFT: Final = (-1, -1, -1)


class CompactionRunning(PulsarError):
    """Refusal while the topic is being compacted already (CMP-C6)."""

    http_status = 409


@dataclass(slots=True, eq=False)
class CompactionRun:
    """One compaction that runs."""

    token: int
    topic: Topic
    ledger_id: int
    horizon: Position
    index: list[int] = field(default_factory=list)
    last: tuple[int, int, int] = _NOTHING_LEFT


# ---- requests ---------------------------------------------------------------------------------------------------


def request(core: Core, topic: Topic) -> None:
    """Compacts a topic now. CompactionRunning when one runs already (CMP-C6)."""
    if status(core, topic)[0] == RUNNING:
        raise CompactionRunning("Compaction already in progress")
    _begin(core, topic)


def status(core: Core, topic: Topic) -> tuple[str, str]:
    """Returns status and error of the topic's last compaction since the start of the broker."""
    return core.compactions.statuses.get(topic.state.topic_id, (NOT_RUN, ""))


def covers(topic: Topic, position: Position) -> bool:
    """Returns whether readers of the compacted view get the position from the compacted ledger."""
    compaction = topic.state.compaction
    return compaction is not None and compaction.ledger is not None and position <= compaction.horizon


def last_left(topic: Topic) -> tuple[int, int, int] | None:
    """Returns position and batch index of the last message of the compacted view, -1:-1 when nothing is left; None when
    it is the last one of the topic. A reader would wait for ever for one that was taken out (RD-4)."""
    compaction = topic.state.compaction
    if compaction is None or compaction.ledger is None:
        return None
    last = topic.last_visible
    is_behind = last > compaction.horizon and topic.ledger.contains(last)
    return None if is_behind else compaction.last


def begin(core: Core) -> None:
    """Drops compactions that the last end of the broker broke off, and checks thresholds from now on."""
    for state in core.state.topics.values():
        if state.compaction is not None and state.compaction.writing is not None:
            core.append(CompactionAbandoned(state.topic_id))
    states, check = core.state.topics.values, partial(_check_threshold, core)
    every(core, lambda: core.config.compaction_interval_ms, states, check, _CHECKS_A_TURN)


def stop_topic(core: Core, topic: Topic) -> None:
    """Stops the compaction of a topic that is deleted."""
    topic_id = topic.state.topic_id
    for run in [run for run in core.compactions.running.values() if run.topic is topic]:
        del core.compactions.running[run.token]
        core.effects.append(StopCompaction(run.token))
    core.compactions.statuses.pop(topic_id, None)
    core.compactions.failed_ms.pop(topic_id, None)


# ---- runs -------------------------------------------------------------------------------------------------------


def _begin(core: Core, topic: Topic) -> None:
    topic_id, ledger, horizon = topic.state.topic_id, topic.ledger, topic.max_read_position
    if topic.state.compaction is None:
        core.append(CompactionPrepared(topic_id, *EARLIEST))
    compaction = topic.state.compaction
    assert compaction is not None, "prepared just now"
    if horizon <= compaction.horizon:  # nothing came since the last time
        core.compactions.statuses[topic_id] = (SUCCESS, "")
        return
    ledger_id = core.state.next_ledger_id
    core.append(CompactionBegun(topic_id, ledger_id, core.wall_ms))
    core.compactions.last_token += 1
    run = CompactionRun(core.compactions.last_token, topic, ledger_id, horizon)
    core.compactions.running[run.token] = run
    core.compactions.statuses[topic_id] = (RUNNING, "")
    before, left_out = compaction.ledger, _left_out(topic)
    pieces: list[tuple[int, int, int]] = []
    for info in ledger.ledgers.values():
        if compaction.horizon.ledger_id <= info.ledger_id <= horizon.ledger_id:
            first, end = info.first_entry_id, info.entries
            if info.ledger_id == compaction.horizon.ledger_id:
                first = max(first, compaction.horizon.entry_id + 1)
            if info.ledger_id == horizon.ledger_id:
                end = min(end, horizon.entry_id + 1)
            pieces += _readable(info.ledger_id, first, end, left_out.get(info.ledger_id, ()))
    compacted = []
    if before is not None:
        compacted = _readable(before.ledger_id, 0, before.entries, left_out.get(before.ledger_id, ()))
    keep_null_keys = core.config.compaction_keeps_null_keys
    core.effects.append(CompactTopic(run.token, tuple(compacted), tuple(pieces), keep_null_keys))


def _left_out(topic: Topic) -> dict[int, list[tuple[int, int]]]:
    """Returns the entries of each ledger that storage lost, as far as that was accepted, and withheld ones (TX-19)."""
    spans: dict[int, list[tuple[int, int]]] = {}
    lost = (damage[:3] for damage in topic.state.damages if damage.accepted)
    for ledger_id, first, end in sorted([*lost, *topic.ledger.withheld]):
        spans.setdefault(ledger_id, []).append((first, end))
    return spans


def _readable(ledger_id: int, first: int, end: int, left_out: Sequence[tuple[int, int]]) -> list[Span]:
    """Returns the parts of entries `first … end - 1` that are not left out."""
    parts: list[Span] = []
    for gap_first, gap_end in left_out:
        if gap_first < end and gap_end > first:
            if first < gap_first:
                parts.append((ledger_id, first, gap_first))
            first = max(first, gap_end)
    return [*parts, (ledger_id, first, end)] if first < end else parts


def on_entries(core: Core, event: EntriesCompacted) -> None:
    """Appends a block of remaining messages to the ledger that is written."""
    run: CompactionRun | None = core.compactions.running.get(event.token)
    if run is None:
        return
    info = core.state.ledgers[run.ledger_id]
    run.index += (*event.source, info.entries)
    run.last = event.last
    entries = EntryRun(run.ledger_id, info.entries, event.buffer, event.starts, event.ends, event.message_counts)
    core.append(EntriesAppended(entries))

    token = run.token

    def go_on() -> None:
        if core.compactions.running.get(token) is run:
            core.effects.append(ContinueCompaction(token))

    core.when_durable(go_on)


def on_ended(core: Core, event: CompactionEnded) -> None:
    """Finishes a compaction: readers of the compacted view get its ledger from now on."""
    run: CompactionRun | None = core.compactions.running.pop(event.token, None)
    if run is None:
        return
    topic = run.topic
    topic_id = topic.state.topic_id
    index = tuple(run.index)
    core.append(CompactionFinished(topic_id, run.ledger_id, *run.horizon, core.wall_ms, event.removed, run.last, index))
    retention.trim(core, topic)
    topic.wake_subscriptions(core)

    def note_success() -> None:
        core.compactions.statuses[topic_id] = (SUCCESS, "")

    core.when_durable(note_success)


def on_failed(core: Core, event: CompactionFailed) -> None:
    """Abandons a compaction whose entries could not be read."""
    run = core.compactions.running.pop(event.token, None)
    if run is None:
        return
    topic_id = run.topic.state.topic_id
    core.append(CompactionAbandoned(topic_id))
    core.compactions.failed_ms[topic_id] = core.wall_ms
    core.compactions.statuses[topic_id] = (ERROR, event.reason)


# ---- by threshold -----------------------------------------------------------------------------------------------


def prepare(core: Core, topic: Topic) -> None:
    """Keeps the messages of a topic with a threshold, from its first one on, until they are compacted (CMP-C4)."""
    if topic.state.compaction is None and core.policies_of(topic.name).compaction_threshold_bytes > 0:
        core.append(CompactionPrepared(topic.state.topic_id, *EARLIEST))


def _check_threshold(core: Core, state: TopicState) -> None:
    """Compacts a topic with more than its threshold to compact."""
    in_use = core.topics.get(state.name)
    name = TopicName.parse(state.name) if in_use is None else in_use.name
    threshold = core.policies_of(name).compaction_threshold_bytes
    if threshold <= 0 or state.topic_id not in core.state.topics:
        return
    topic = registry.find(core, name)
    assert topic is not None, "its state exists"
    prepare(core, topic)
    horizon = EARLIEST if state.compaction is None else state.compaction.horizon
    if topic.ledger.bytes_after(horizon) > threshold and status(core, topic)[0] != RUNNING:
        _begin(core, topic)
