"""Records of de-duplication (DED-2, DED-7): the highest sequence id stored of each producer name.

`SequencesReached` stands in the same group as the entries it speaks of, so that an entry and its sequence id are on
disk together or not at all: nothing has to be read again after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import ClassVar, Final

from .base import DeclaredRecord, Record
from .codec import BodyReader, RecordDamaged, i64s_bytes, text_bytes

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
