"""Reading of stored documents of policies, perhaps of an older version, which refused less than this one.

A stored policy was accepted once, so it is never refused when it is read: a broker that did would not start on its own
data any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from spark_pulsar.model.errors import PulsarError

from .json_values import MalformedPolicy, OutOfRange, Reader, members

Readers = Mapping[str, "Reader | Readers | ByName"]
"""Readers of the members of a document, and of documents in it."""


class ByName(NamedTuple):
    """Readers of a document whose members are names of users: each holds a document of the same members."""

    readers: Readers


_MOST_NUMBERS: Final = 16
"""Numbers of one policy that are corrected."""
_REFUSALS: Final = (PulsarError, ValueError, KeyError, TypeError)


class Readable(NamedTuple):
    """A document as far as it can be read, and notes on the members that differ from the stored ones."""

    document: dict[str, Any]
    notes: tuple[str, ...]


def readable(stored: Mapping[str, Any], readers: Readers | ByName) -> Readable:
    """Returns a document whose members their readers take. A number too large for its type becomes the nearest one that
    fits; a member that cannot be read even so is left out. Members without reader stay as they are."""
    document: dict[str, Any] = {}
    notes: list[str] = []
    for member, value in stored.items():
        reader = readers.readers if isinstance(readers, ByName) else readers.get(member)
        if reader is None or (value is None and not isinstance(readers, ByName)):
            document[member] = value
            continue
        try:
            if callable(reader):
                read_value = _within_range(reader, value)
            else:
                read_value, inner = readable(members(value, member), reader)
                notes += (f"{member}: {note}" for note in inner)
                if inner and not read_value and isinstance(readers, ByName):
                    continue  # a name with nothing set would mean something else than no such name
        except _REFUSALS as error:
            notes.append(f"{member} is left out, it cannot be read: {error}")
            continue
        document[member] = read_value
        if callable(reader) and read_value is not value:
            notes.append(f"{member} is {read_value}: a number in it was out of range")
    return Readable(document, tuple(notes))


def _within_range(read: Reader, value: Any) -> Any:
    """Returns the value itself if the reader takes it, else one with the nearest numbers that it takes."""
    mended = value
    for _ in range(_MOST_NUMBERS):
        try:
            read_value = read(mended)
        except OutOfRange as error:
            mended = {**mended, error.what: error.nearest} if isinstance(mended, Mapping) else error.nearest
        else:
            if mended is value:
                return value
            return read_value.to_json() if hasattr(read_value, "to_json") else mended
    raise MalformedPolicy("too many numbers are out of range")
