"""Encodes and decodes the bodies of records: little-endian fixed fields, length-prefixed text, maps and lists.

A body never describes itself; the record's type and version do. Readers check every length, so that a damaged body
gives `RecordDamaged` and nothing else.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple


class RecordDamaged(ValueError):
    """The body of a record does not have the form that its type and version promise."""


class BodyReader:
    """Reads fields one after the other from `body[at:end]`; RecordDamaged when they do not fit."""

    __slots__ = ("at", "body", "end")

    def __init__(self, body: bytes, at: int = 0, end: int | None = None) -> None:
        self.body = body
        self.at = at
        self.end = len(body) if end is None else end

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        at = self.at
        if size < 0 or at + size > self.end:
            raise RecordDamaged(f"record ends {at + size - self.end} bytes too early")
        self.at = at + size
        return self.body[at : self.at]

    def i64(self) -> int:
        """A signed 64-bit number."""
        return int.from_bytes(self.take(8), "little", signed=True)

    def u32(self) -> int:
        """An unsigned 32-bit number."""
        return int.from_bytes(self.take(4), "little")

    def text(self) -> str:
        """A length-prefixed UTF-8 text."""
        data = self.take(self.u32())
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
        return i64s_from(self.take(8 * count)).tolist()

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
    "bytes": Field(lambda data: len(data).to_bytes(4, "little") + data, lambda reader: reader.take(reader.u32())),
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
