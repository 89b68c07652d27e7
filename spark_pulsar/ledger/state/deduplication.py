"""De-duplication (DED-2, DED-7): the highest sequence id stored of each producer name, until the broker removes it
(DED-9).

`SequencesReached` stands in the same group as the entries it speaks of, so that an entry and its sequence id are on
disk together or not at all: nothing has to be read again after a crash, and no id is known whose entry could not be
written (DED-5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, ClassVar, Final

from spark_pulsar.ledger.records import (
    BodyReader,
    DeclaredRecord,
    InvalidRecord,
    Record,
    RecordDamaged,
    Table,
    i64s_bytes,
    text_bytes,
)

if TYPE_CHECKING:
    from .durable_state import DurableState

_ONE: Final = Struct("<IqqI")
_HEAD: Final = Struct("<I")


@dataclass(slots=True, eq=False)
class SequencesReached(Record):
    """Entries were stored whose highest sequence ids are these; the lists are parallel: topic, producer name, id.

    Body: number of producers; then for one alone topic id, sequence id, length of the name, name; for several the
    topic ids and the sequence ids as counted lists, and the names.
    """

    topic_ids: Sequence[int]
    producers: Sequence[str]
    sequence_ids: Sequence[int]
    TYPE: ClassVar[int] = 70

    def encode(self) -> bytes:
        if len(self.topic_ids) == 1:
            name = self.producers[0].encode()
            return _ONE.pack(1, self.topic_ids[0], self.sequence_ids[0], len(name)) + name
        count = _HEAD.pack(len(self.topic_ids))
        names = [text_bytes(name) for name in self.producers]
        return b"".join((count, i64s_bytes(self.topic_ids), i64s_bytes(self.sequence_ids), *names))

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> SequencesReached:
        try:
            (count,) = _HEAD.unpack_from(body, at)
            if count == 1:
                _, topic_id, sequence_id, size = _ONE.unpack_from(body, at)
                start = at + _ONE.size
                if start + size != end:
                    raise RecordDamaged("sequences: the name does not fill the body")
                return cls((topic_id,), (body[start:end].decode(),), (sequence_id,))
        except (StructError, UnicodeDecodeError) as error:
            raise RecordDamaged(f"sequences: {error}") from error
        reader = BodyReader(body, at + _HEAD.size, end)
        topic_ids, sequence_ids = reader.i64s(), reader.i64s()
        if not len(topic_ids) == len(sequence_ids) == count:
            raise RecordDamaged("sequences: lists of different lengths")
        producers = [reader.text() for _ in range(count)]
        reader.finish()
        return cls(topic_ids, producers, sequence_ids)


@dataclass(frozen=True, slots=True)
class SequencesForgotten(DeclaredRecord):
    """Sequence ids of these producers of the topic are removed; those of all when none is named."""

    topic_id: int
    producers: tuple[str, ...]
    TYPE: ClassVar[int] = 71


def _sequences_reached(state: DurableState, record: SequencesReached) -> None:
    topics, dirty = state.topics, state.dirty["sequences"]
    topic_ids, producers, sequence_ids = record.topic_ids, record.producers, record.sequence_ids
    if len(topic_ids) > 1 and not topics.keys() >= set(topic_ids):
        raise InvalidRecord(f"sequence ids of a topic of {topic_ids} that does not exist")
    for topic_id, producer, sequence_id in zip(topic_ids, producers, sequence_ids, strict=True):
        topic = topics.get(topic_id)
        if topic is None:
            raise InvalidRecord(f"sequence ids of topic {topic_id}, which does not exist")
        topic.sequences[producer] = sequence_id
        dirty.add((topic_id, producer))


def _sequences_removed(state: DurableState, record: SequencesForgotten) -> None:
    sequences = state.topic(record.topic_id).sequences
    for producer in record.producers or list(sequences):
        if sequences.pop(producer, None) is not None:
            state.dirty["sequences"].add((record.topic_id, producer))


TRANSITIONS: Final[Mapping[type[Record], Callable[[DurableState, Any], None]]] = {
    SequencesReached: _sequences_reached,
    SequencesForgotten: _sequences_removed,
}
"""Effects of the records, by type."""


def _values(state: DurableState, key: tuple[int, str]) -> tuple[Any, ...] | None:
    topic = state.topics.get(key[0])
    sequence_id = None if topic is None else topic.sequences.get(key[1])
    return None if sequence_id is None else (sequence_id,)


def load(state: DurableState, rows: Iterable[tuple[int, str, int]]) -> None:
    """Gives topics the sequence ids of their rows."""
    for topic_id, producer, sequence_id in rows:
        state.topics[topic_id].sequences[producer] = sequence_id


TABLES: Final = (Table("sequences", 2, ("topic_id INTEGER", "producer TEXT", "sequence_id INTEGER"), _values),)
