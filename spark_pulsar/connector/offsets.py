"""Offsets: where a query stands in every topic partition.

A position is the **next message to read**: ledger, entry and index inside the batch, index 0 being the first message of
the entry. An end is exclusive. So `start == end` is an empty range, the end of one micro-batch is the start of the
next, and a position may point at an entry that does not exist yet (the one after the last) or no longer.

In a checkpoint an offset is a JSON object whose keys are always in the same order, because Spark compares offsets as
text:

    {"version": 1,
     "positions": {"persistent://public/default/t-partition-0": "12:34:0", …},
     "newest": {…},             the ends that were known, of the partitions where something was left unread
     "first": {…},              the first entries of the micro-batch that ends here, where its start does not say them
     "initial": {…},            the positions at which the query began; only in the offset of its first micro-batch
     "cuts": {topic: ["12:30:0", …]}  where the ranges of the micro-batch that ends here are cut, for several tasks each
     "oneTask": true,           one task reads the micro-batch that ends here; else one task for each partition
     "partitionCounts": {…}}    the number of partitions of each topic, where keys are read by their hash; 0: it changed

`newest` and `first` are what makes a loss certain. The position of a partition in `newest` is that of an entry which
existed when the offset was made: if it is gone later, it was lost. A position without `newest` is the end of all that
was known: its ledger may since have ended and been trimmed without a loss, and what comes next may have any id. What
did come next is noted in `first` by the end of the micro-batch that reads it, so that a replay misses it too.

`initial` closes a hole: Spark does not store the offset a new query starts from and asks for it again after a restart
before the first commit, when `latest` has moved on. The first end offset is in the write-ahead log, so it carries it.
"fresh": true marks the answer to that question, which is never stored by itself.

`oneTask` and `cuts` are decided when a micro-batch is planned and have to outlive a restart: a replay has the same
tasks.

Fields that this version does not know are kept out of its way: a later minor addition is ignored, a later `version` is
refused, for it may mean something else by the same words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.model.ids import MessageId

VERSION: Final = 1

_TEXT: Final = re.compile(r"(\d{1,19}):(\d{1,19})(?::(-1|\d{1,10}))?")
_EARLIEST_TEXT: Final = "earliest"


class ReadPosition(NamedTuple):
    """The next message to read in one topic partition; compares as a tuple."""

    ledger_id: int
    entry_id: int
    batch_index: int = 0

    def __str__(self) -> str:
        if self == EARLIEST:
            return _EARLIEST_TEXT
        return f"{self.ledger_id}:{self.entry_id}:{self.batch_index}"

    @property
    def message_id(self) -> MessageId:
        """The position as a message id of the wire client (batch index -1: nothing of the entry is read yet)."""
        return MessageId(self.ledger_id, self.entry_id, -1, self.batch_index or -1)

    @classmethod
    def of(cls, message_id: MessageId) -> ReadPosition:
        """Makes a position from a message id of the wire client, where -1:-1 is the start of the topic."""
        if message_id.ledger_id < 0 or message_id.entry_id < 0:
            return EARLIEST
        return cls(message_id.ledger_id, message_id.entry_id, max(message_id.batch_index, 0))


EARLIEST: Final = ReadPosition(-1, -1, 0)
"""Before whatever the topic's first message is."""


def parse_position(text: str) -> ReadPosition:
    """Reads `ledger:entry`, `ledger:entry:batch` or `earliest`. Raises OffsetError."""
    if text == _EARLIEST_TEXT:
        return EARLIEST
    match = _TEXT.fullmatch(text)
    if match is None:
        raise OffsetError(f"{text!r} is not a position: expected ledger:entry or ledger:entry:batch")
    ledger, entry, batch = match.groups()
    if int(ledger) >= 2**63 or int(entry) >= 2**63:
        raise OffsetError(f"{text!r} is not a position: numbers must be below 2^63")
    if int(batch or 0) >= 2**31:
        raise OffsetError(f"{text!r} is not a position: a batch index must be below 2^31")
    return ReadPosition(int(ledger), int(entry), max(int(batch or 0), 0))


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """Positions of all topic partitions (full names), see the module docstring for the rest."""

    positions: Mapping[str, ReadPosition]
    initial: Mapping[str, ReadPosition] | None = None
    fresh: bool = False
    newest: Mapping[str, ReadPosition] = field(default_factory=dict)
    first: Mapping[str, ReadPosition] = field(default_factory=dict)
    one_task: bool = False
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    cuts: Mapping[str, tuple[ReadPosition, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object, in canonical key order: equal offsets give equal text."""
        out: dict[str, Any] = {"version": VERSION, "positions": _texts(self.positions)}
        if self.newest:
            out["newest"] = _texts(self.newest)
        if self.first:
            out["first"] = _texts(self.first)
        if self.initial is not None:
            out["initial"] = _texts(self.initial)
        if self.cuts:
            out["cuts"] = {topic: [str(at) for at in self.cuts[topic]] for topic in sorted(self.cuts)}
        if self.one_task:
            out["oneTask"] = True
        if self.partition_counts:
            out["partitionCounts"] = {topic: self.partition_counts[topic] for topic in sorted(self.partition_counts)}
        if self.fresh:
            out["fresh"] = True
        return out

    @classmethod
    def from_json(cls, loaded: object) -> SourceOffset:
        """Reads what `to_json` of this or an earlier version wrote. Raises OffsetError."""
        if not isinstance(loaded, Mapping):
            raise OffsetError(f"an offset is a JSON object, not {type(loaded).__name__}")
        version = loaded.get("version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise OffsetError(
                f"not an offset of spark-pulsar (version {version!r}); was this checkpoint written by another source?"
            )
        if version > VERSION:
            raise OffsetError(
                f"this checkpoint has offsets of version {version}, this spark-pulsar reads up to version {VERSION}: "
                "use a newer one"
            )
        initial = loaded.get("initial")
        return cls(
            positions=_positions(loaded.get("positions")),
            initial=None if initial is None else _positions(initial),
            fresh=loaded.get("fresh") is True,
            newest=_positions(loaded.get("newest", {})),
            first=_positions(loaded.get("first", {})),
            one_task=loaded.get("oneTask") is True,
            partition_counts=_counts(loaded.get("partitionCounts", {})),
            cuts=_cuts(loaded.get("cuts", {})),
        )


def _texts(positions: Mapping[str, ReadPosition]) -> dict[str, str]:
    return {topic: str(positions[topic]) for topic in sorted(positions)}


def _positions(loaded: object) -> dict[str, ReadPosition]:
    if not isinstance(loaded, Mapping):
        raise OffsetError("an offset needs an object of topic partition to position")
    out: dict[str, ReadPosition] = {}
    for topic, text in loaded.items():
        if not isinstance(topic, str) or not isinstance(text, str):
            raise OffsetError(f"position of {topic!r} must be a text, not {text!r}")
        out[topic] = parse_position(text)
    return out


def _counts(loaded: object) -> dict[str, int]:
    if not isinstance(loaded, Mapping) or not all(isinstance(count, int) for count in loaded.values()):
        raise OffsetError("partitionCounts of an offset must be an object of topic to number")
    return dict(loaded)


def _cuts(loaded: object) -> dict[str, tuple[ReadPosition, ...]]:
    if not isinstance(loaded, Mapping) or not all(isinstance(cuts, list) for cuts in loaded.values()):
        raise OffsetError("the cuts of an offset are lists of positions by topic partition")
    return {topic: tuple(parse_position(str(text)) for text in cuts) for topic, cuts in loaded.items()}


def recorded_start(fresh: SourceOffset, end: SourceOffset) -> SourceOffset:
    """Returns the true start of the range from `fresh` to `end`: what the first end recorded, if `fresh` was asked
    again."""
    if fresh.fresh and end.initial is not None:
        return SourceOffset(end.initial)
    return fresh


def entries_between(position: ReadPosition, end: ReadPosition) -> int:
    """Counts stored entries: exact while both positions are in one ledger, else at least that many."""
    if position >= end:
        return 0
    whole = end.entry_id + (1 if end.batch_index else 0)
    return whole - position.entry_id if position.ledger_id == end.ledger_id else max(whole, 1)
