"""The table of record types, and bytes to records by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from . import base, compaction, cursors, damage, deduplication, delays, documents, schemas, topics, transactions
from .base import Record, UnknownRecord

RECORD_TYPES: Final[dict[int, type[Record]]] = {
    known.TYPE: known
    for module in (base, compaction, cursors, damage, deduplication, delays, documents, schemas, topics, transactions)
    for known in vars(module).values()
    if isinstance(known, type) and issubclass(known, Record) and hasattr(known, "TYPE")
}
"""Every record that this program writes, by its `TYPE`."""

_DECODE: Final[dict[tuple[int, int], Callable[[bytes, int, int], Record]]] = {
    **{(known.TYPE, known.VERSION): known.decode for known in RECORD_TYPES.values()},
    (1, 1): base.EntriesAppended.decode_old_run,
    (3, 1): base.EntriesAppended.decode,
}
"""Decoders by type and version, with the forms that older programs wrote."""


def decode_record(record_type: int, version: int, body: bytes, at: int, end: int) -> Record:
    """The record whose body is `body[at:end]`. UnknownRecord for a type or version from elsewhere, RecordDamaged for
    a body of another form."""
    decode = _DECODE.get((record_type, version))
    if decode is None:
        known = RECORD_TYPES.get(record_type)
        if known is None:
            raise UnknownRecord(f"record type {record_type} is unknown to this version of the program")
        raise UnknownRecord(f"{known.__name__} version {version} is unknown to this program (it knows {known.VERSION})")
    return decode(body, at, end)
