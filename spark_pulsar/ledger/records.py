"""The journal's records: the only way in which durable state changes.

A record is a past fact. It has a `TYPE` (one byte, never reused), a `VERSION` (of its body's form) and an `encode`;
`decode_record` is the way back. `apply` gives it its effect, live and in recovery alike (`state.apply` has both).
Records are immutable and carry everything their effect needs: no clock is read and no id is chosen while applying.

A body is little-endian fixed fields, length-prefixed text, maps and lists. It never describes itself; the record's type
and version do. Readers check every length, so that a damaged body gives `RecordDamaged` and nothing else.

| types | about |
| --- | --- |
| 1 … 9 | entries, broker-wide counters |
| 10 … 19 | topics, partitioned topics, namespaces |
| 20 … 29 | ledgers |
| 30 … 39 | cursors |
| 40 … 49 | documents: topic policies, tenants, clusters |
| 70 … 79 | de-duplication |
| 80 … 89 | compaction |
| 90 … 99 | damage |
| 110 … 119 | schemas |
| 120 … 129 | transactions |

Times are wall-clock milliseconds. Ranges of entries are `(ledger_id, first, end)`, end exclusive.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Final, NamedTuple, Self


class RecordDamaged(ValueError):
    """The body of a record does not have the form that its type and version promise."""


class BodyReader:
    """Reads fields one after the other from `body[at:end]`; RecordDamaged when they do not fit."""

    __slots__ = ("at", "body", "end")

    def __init__(self, body: bytes, at: int = 0, end: int | None = None) -> None:
        self.body = body
        self.at = at
        self.end = len(body) if end is None else end

    def read(self, size: int) -> bytes:
        """The next `size` bytes."""
        at = self.at
        if size < 0 or at + size > self.end:
            raise RecordDamaged(f"record ends {at + size - self.end} bytes too early")
        self.at = at + size
        return self.body[at : self.at]

    def i64(self) -> int:
        """A signed 64-bit number."""
        return int.from_bytes(self.read(8), "little", signed=True)

    def u32(self) -> int:
        """An unsigned 32-bit number."""
        return int.from_bytes(self.read(4), "little")

    def text(self) -> str:
        """A length-prefixed UTF-8 text."""
        data = self.read(self.u32())
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise RecordDamaged(f"text is not UTF-8: {error}") from error

    def text_map(self) -> dict[str, str]:
        """A map of texts."""
        return {self.text(): self.text() for _ in range(self.u32())}

    def i64s(self) -> list[int]:
        """A counted list of signed 64-bit numbers."""
        count = self.u32()
        return i64s_from(self.read(8 * count)).tolist()

    def finish(self) -> None:
        """RecordDamaged unless everything was read."""
        if self.at != self.end:
            raise RecordDamaged(f"{self.end - self.at} bytes left over after the last field")


def text_bytes(text: str) -> bytes:
    """Counterpart of `BodyReader.text`."""
    data = text.encode()
    return len(data).to_bytes(4, "little") + data


def text_map_bytes(mapping: Mapping[str, str]) -> bytes:
    """Counterpart of `BodyReader.text_map`."""
    parts = [len(mapping).to_bytes(4, "little")]
    for key, value in mapping.items():
        parts += (text_bytes(key), text_bytes(value))
    return b"".join(parts)


def i64_bytes(number: int) -> bytes:
    """Counterpart of `BodyReader.i64`."""
    return number.to_bytes(8, "little", signed=True)


def i64s_bytes(numbers: Sequence[int]) -> bytes:
    """Counterpart of `BodyReader.i64s`."""
    return len(numbers).to_bytes(4, "little") + struct.pack(f"<{len(numbers)}q", *numbers)


class Field(NamedTuple):
    """One field of a declared record: how it is written and read."""

    write: Callable[[Any], bytes]
    read: Callable[[BodyReader], Any]


_I64S: Final = Field(i64s_bytes, lambda reader: tuple(reader.i64s()))

FIELDS: Final[Mapping[str, Field]] = {
    "int": Field(i64_bytes, BodyReader.i64),
    "str": Field(text_bytes, BodyReader.text),
    "bytes": Field(lambda data: len(data).to_bytes(4, "little") + data, lambda reader: reader.read(reader.u32())),
    "Mapping[str, str]": Field(text_map_bytes, BodyReader.text_map),
    "Sequence[int]": _I64S,
    "tuple[int, ...]": _I64S,
    "tuple[str, ...]": Field(
        lambda texts: len(texts).to_bytes(4, "little") + b"".join(map(text_bytes, texts)),
        lambda reader: tuple(reader.text() for _ in range(reader.u32())),
    ),
}
"""Forms of the fields of declared records, by annotation: a signed 64-bit number, and counted or length-prefixed ones.
The annotations are what decides about bytes on disk: a field may not be annotated otherwise once it is written."""

_SWAP: Final = sys.byteorder == "big"


def u32s(values: Sequence[int]) -> bytes:
    """Numbers below 2**32 packed little-endian, 4 bytes each."""
    packed = values if type(values) is array and values.typecode == "I" else array("I", values)
    if _SWAP:
        packed = array("I", packed)
        packed.byteswap()
    return packed.tobytes()


def u32s_from(data: bytes) -> array[int]:
    """Counterpart of `u32s`."""
    packed = array("I")
    packed.frombytes(data)
    if _SWAP:
        packed.byteswap()
    return packed


def i64s_from(data: bytes) -> array[int]:
    """Signed 64-bit little-endian numbers, as many as there are."""
    packed = array("q")
    packed.frombytes(data)
    if _SWAP:
        packed.byteswap()
    return packed


def i64s_packed(values: Sequence[int]) -> bytes:
    """Counterpart of `i64s_from`."""
    packed = values if type(values) is array and values.typecode == "q" and not _SWAP else array("q", values)
    if _SWAP:
        packed.byteswap()
    return packed.tobytes()


class InvalidRecord(ValueError):
    """The record does not fit the state: it names something unknown, or is out of order. A mistake of its maker."""


class UnknownRecord(RecordDamaged):
    """A type or version of record that this program does not know: written by a newer one, or damaged."""


class Record:
    """Base of all records."""

    __slots__ = ()
    TYPE: ClassVar[int]
    VERSION: ClassVar[int] = 1

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

    def encode(self) -> bytes:
        """The body."""
        raise NotImplementedError

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> Self:
        """The record whose body is `body[at:end]`; RecordDamaged when it has another form."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class DeclaredRecord(Record):
    """A record whose body is its fields one after the other, each in the form of its annotation (`FIELDS`)."""

    def encode(self) -> bytes:
        return b"".join([field.write(getattr(self, name)) for name, field in self._layout()])

    @classmethod
    def decode(cls, body: bytes, at: int, end: int) -> Self:
        reader = BodyReader(body, at, end)
        values: list[Any] = [field.read(reader) for _, field in cls._layout()]
        reader.finish()
        return cls(*values)

    @classmethod
    @cache
    def _layout(cls) -> tuple[tuple[str, Field], ...]:
        return tuple((field.name, FIELDS[str(field.type)]) for field in fields(cls))


class Table(NamedTuple):
    """Name and columns (with SQL types) of a table of the checkpoint; the first `keys` columns are its primary key.
    `values` gives, for a `DurableState` and a key, the other columns of the row, None when the row is to be deleted;
    the rows of `cursor_blocks` come from `pop_changed_blocks`."""

    name: str
    keys: int
    columns: tuple[str, ...]
    values: Callable[[Any, Any], tuple[Any, ...] | None] | None
