"""Offsets: where a query stands in every topic partition (OFFSET-1).

Positions are those of `positions`, so the end of one micro-batch is the start of the next. An offset names its topics
in full and depends on no other source of the query, which may get a place elsewhere in it (READ-46).

In a checkpoint an offset is a JSON object whose keys are always in the same order, because Spark compares offsets as
text:

    {"version": 1,
     "positions": {"persistent://public/default/t-partition-0": "12:34:0", …},
     "newest": {…},             the ends that were known, of the partitions where something was left unread
     "first": {…},              the first entries of the micro-batch that ends here, where its start does not say them
     "seen": {topic: "12:33:1790000000000:1a2b3c4d", …}  fingerprints of entries before them: `entry_evidence`
     "replaced": [topic, …],    partitions with other messages under the ids of those that were read; read anew
     "subscription": "name",    the subscription that every partition had when the offset was made
     "initial": {…},            the positions at which the query began; only in the offset of its first micro-batch
     "cuts": {topic: ["12:30:0", …]}  where the ranges of the micro-batch that ends here are cut, for several tasks each
     "oneTask": true,           one task reads the micro-batch that ends here; else one task for each partition
     "sharingTasks": 32,        so many tasks read its small ranges: `planning.sharing`
     "partitionCounts": {…}}    the number of partitions of each topic, where keys are read by their hash; 0: it changed

`newest` and `first` are what makes a loss certain. The position of a partition in `newest` is that of an entry which
existed when the offset was made: if it is gone later, it was lost. A position without `newest` is the end of all that
was known: its ledger may since have ended and been trimmed without a loss, and what comes next may have any id. What
did come next is noted in `first` by the end of the micro-batch that reads it, so that a replay misses it too.

`initial` closes a hole: Spark does not store the offset a new query starts from and requests it again after a restart
before the first commit, when `latest` has moved on. The first end offset is in the write-ahead log, so it carries it.
"fresh": true marks the answer to that question, which is never stored by itself.

`seen` proves at the next start that a topic is still the one that was read (OFFSET-17): ids alone do not, for a
directory that was wiped, a copy that was restored and another broker may have the same. `replaced` is how a micro-batch
begins anew there, in a replay too.

`oneTask`, `sharingTasks` and `cuts` are decided when a micro-batch is planned and have to outlive a restart: a replay
has the same tasks.

Members of many partitions are packed (`packed_partitions`), and the version is 2 then.

Fields that this version does not know are kept out of its way: a later minor addition is ignored, a later `version` is
refused, for it may mean something else by the same words.

StreamNative's connector writes an object of topic partition to the last message that was read, as an array of the bytes
of its id: a query of it goes on here (OFFSET-24). What comes next is written in the form above.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spark_pulsar.connector.errors import OffsetError
from spark_pulsar.connector.offsets import packed_partitions
from spark_pulsar.connector.offsets.entry_evidence import fingerprint_text, parse_fingerprint
from spark_pulsar.connector.options.serialized_ids import position_read_up_to
from spark_pulsar.connector.positions import EARLIEST, ReadPosition, parse_position
from spark_pulsar.model.fingerprints import Fingerprint

PLAIN: Final = 1
"""Version of an offset in which each partition has its full name."""
PACKED: Final = 2
"""Version of an offset in which a member has partitions of a topic in one text."""


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """Positions of all topic partitions (full names), see the module docstring for the rest."""

    positions: Mapping[str, ReadPosition]
    initial: Mapping[str, ReadPosition] | None = None
    fresh: bool = False
    newest: Mapping[str, ReadPosition] = field(default_factory=dict)
    first: Mapping[str, ReadPosition] = field(default_factory=dict)
    one_task: bool = False
    sharing_tasks: int = 0
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    cuts: Mapping[str, tuple[ReadPosition, ...]] = field(default_factory=dict)
    seen: Mapping[str, Fingerprint] = field(default_factory=dict)
    replaced: frozenset[str] = frozenset()
    subscription: str | None = None
    is_streamnative: bool = False
    """An offset that StreamNative's connector wrote; never written here."""

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object, in canonical key order: equal offsets give equal text (READ-22)."""
        initial = self.initial or {}
        members = (self.positions, self.newest, self.first, self.seen, initial)
        # A topic's own name may be what its packed partitions would be called.
        packs = not any(packed_partitions.is_packed(topic) for member in members for topic in member)
        out: dict[str, Any] = {"version": PLAIN, "positions": _texts(self.positions, packs)}
        if self.newest:
            out["newest"] = _texts(self.newest, packs)
        if self.first:
            out["first"] = _texts(self.first, packs)
        if self.seen:
            out["seen"] = _fingerprint_texts(self.seen, self.positions, packs)
        if self.replaced:
            out["replaced"] = sorted(self.replaced)
        if self.subscription is not None:
            out["subscription"] = self.subscription
        if self.initial is not None:
            out["initial"] = _texts(self.initial, packs)
        if self.cuts:
            out["cuts"] = {topic: [str(at) for at in self.cuts[topic]] for topic in sorted(self.cuts)}
        if self.one_task:
            out["oneTask"] = True
        if self.sharing_tasks:
            out["sharingTasks"] = self.sharing_tasks
        if self.partition_counts:
            out["partitionCounts"] = {topic: self.partition_counts[topic] for topic in sorted(self.partition_counts)}
        if self.fresh:
            out["fresh"] = True
        if packs and any(packed_partitions.is_packed(topic) for name in _BY_PARTITION for topic in out.get(name, ())):
            out["version"] = PACKED
        return out

    @classmethod
    def from_json(cls, loaded: object) -> SourceOffset:
        """Reads what `to_json` of this or an earlier version wrote, or StreamNative's connector. Raises OffsetError."""
        if not isinstance(loaded, Mapping):
            raise OffsetError(f"an offset is a JSON object, not {type(loaded).__name__}")
        if all(isinstance(value, list) for value in loaded.values()):
            positions = {str(topic): position_read_up_to(str(topic), numbers) for topic, numbers in loaded.items()}
            return cls(positions, is_streamnative=True)
        version = loaded.get("version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise OffsetError(
                f"not an offset of spark-pulsar (version {version!r}); was this checkpoint written by another source?"
            )
        if version > PACKED:
            raise OffsetError(
                f"this checkpoint has offsets of version {version}, this spark-pulsar reads up to version {PACKED}: "
                "use a newer one"
            )
        initial, subscription = loaded.get("initial"), loaded.get("subscription")
        is_packed = version == PACKED
        positions = _positions(loaded.get("positions"), is_packed)
        return cls(
            positions=positions,
            initial=None if initial is None else _positions(initial, is_packed),
            fresh=loaded.get("fresh") is True,
            newest=_positions(loaded.get("newest", {}), is_packed),
            first=_positions(loaded.get("first", {}), is_packed),
            one_task=loaded.get("oneTask") is True,
            sharing_tasks=_count(loaded.get("sharingTasks", 0)),
            partition_counts=_counts(loaded.get("partitionCounts", {})),
            cuts=_cuts(loaded.get("cuts", {})),
            seen=_seen(loaded.get("seen", {}), positions if is_packed else None),
            replaced=_topics(loaded.get("replaced", [])),
            subscription=subscription if isinstance(subscription, str) else None,
        )


_BY_PARTITION: Final = ("positions", "newest", "first", "seen", "initial")
"""Members that may be packed."""


def _texts(positions: Mapping[str, ReadPosition], packs: bool) -> dict[str, str]:
    stays, packed = packed_partitions.split(positions) if packs else (positions, {})
    texts = {topic: str(position) for topic, position in stays.items()}
    texts |= {name: packed_partitions.packed_positions(partitions) for name, partitions in packed.items()}
    return dict(sorted(texts.items()))


def _fingerprint_texts(
    seen: Mapping[str, Fingerprint], positions: Mapping[str, ReadPosition], packs: bool
) -> dict[str, str]:
    stays, packed = packed_partitions.split(seen) if packs else (seen, {})
    texts = {topic: fingerprint_text(entry) for topic, entry in stays.items()}
    for name, partitions in packed.items():

        def position_of(number: int, name: str = name) -> ReadPosition | None:
            return positions.get(f"{name}{number}")

        texts[name] = packed_partitions.packed_fingerprints(partitions, position_of)
    return dict(sorted(texts.items()))


def _positions(loaded: object, is_packed: bool) -> dict[str, ReadPosition]:
    if not isinstance(loaded, Mapping):
        raise OffsetError("an offset needs an object of topic partition to position")
    out: dict[str, ReadPosition] = {}
    for topic, text in loaded.items():
        if not isinstance(topic, str) or not isinstance(text, str):
            raise OffsetError(f"position of {topic!r} must be a text, not {text!r}")
        if is_packed and packed_partitions.is_packed(topic):
            out |= packed_partitions.unpacked_positions(topic, text)
        else:
            out[topic] = parse_position(text)
    return dict(sorted(out.items())) if is_packed else out


def _counts(loaded: object) -> dict[str, int]:
    if not isinstance(loaded, Mapping) or not all(isinstance(count, int) for count in loaded.values()):
        raise OffsetError("partitionCounts of an offset must be an object of topic to number")
    return dict(loaded)


def _count(loaded: object) -> int:
    if not isinstance(loaded, int) or isinstance(loaded, bool) or loaded < 0:
        raise OffsetError(f"sharingTasks of an offset must be a number of tasks, not {loaded!r}")
    return loaded


def _cuts(loaded: object) -> dict[str, tuple[ReadPosition, ...]]:
    if not isinstance(loaded, Mapping) or not all(isinstance(cuts, list) for cuts in loaded.values()):
        raise OffsetError("the cuts of an offset are lists of positions by topic partition")
    return {topic: tuple(parse_position(str(text)) for text in cuts) for topic, cuts in loaded.items()}


def _seen(loaded: object, packed_beside: Mapping[str, ReadPosition] | None) -> dict[str, Fingerprint]:
    """Reads fingerprints; those of a packed offset leave out what its positions say."""
    if not isinstance(loaded, Mapping):
        raise OffsetError("what an offset has seen is an object of topic partition to fingerprint")
    out: dict[str, Fingerprint] = {}
    for topic, text in loaded.items():
        if packed_beside is not None and packed_partitions.is_packed(str(topic)):
            out |= packed_partitions.unpacked_fingerprints(str(topic), str(text), packed_beside)
        else:
            out[topic] = parse_fingerprint(str(text))
    return out if packed_beside is None else dict(sorted(out.items()))


def _topics(loaded: object) -> frozenset[str]:
    if not isinstance(loaded, list) or not all(isinstance(topic, str) for topic in loaded):
        raise OffsetError("the replaced partitions of an offset are a list of names")
    return frozenset(loaded)


def recorded_start(fresh: SourceOffset, end: SourceOffset) -> SourceOffset:
    """Returns the true start of the range from `fresh` to `end`: the one that the first end recorded, if `fresh` was
    computed again. StreamNative's connector records none there: see `check_known_start`."""
    if fresh.fresh and end.initial is not None:
        return SourceOffset(end.initial)
    return fresh


def check_known_start(start: SourceOffset, end: SourceOffset, *, is_latest: bool) -> None:
    """Checks that the start of the first micro-batch of StreamNative's connector is that of the options again
    (OFFSET-24). Raises OffsetError where it began at the ends that topics had then."""
    if start.fresh and end.is_streamnative and is_latest and any(at != EARLIEST for at in end.positions.values()):
        raise OffsetError(
            "the first micro-batch of this checkpoint, of StreamNative's connector, is not committed, and it began at "
            "what was the latest message then: set the option startingOffsets to what "
            'spark_pulsar.starting_offsets(checkpoint="…") returns, or begin a new checkpoint'
        )
