"""Depth of Avro definitions: the compiled library follows a payload as deep as it goes, and crashes the process."""

from __future__ import annotations

import math
from typing import Final

from spark_pulsar.model.avro import AvroType

MOST_LEVELS: Final = 200


def is_deep(avro: AvroType) -> bool:
    """Tells whether payloads may be nested deeper than MOST_LEVELS: where a type contains itself, or many others."""
    return _height(avro, {}, 0) > MOST_LEVELS


def _height(avro: AvroType, known: dict[AvroType, float], depth: int) -> float:
    found = known.get(avro)
    if found is not None:
        return found
    if depth > MOST_LEVELS:
        return math.inf
    known[avro] = math.inf  # while inside of it
    inner = [*avro.branches, *(field.type for field in avro.fields), *([avro.items] if avro.items else [])]
    known[avro] = 1 + max((_height(each, known, depth + 1) for each in inner), default=0)
    return known[avro]
