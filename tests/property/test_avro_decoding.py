"""AVRO by column beside fastavro: whatever the schemas, their evolution and the bytes."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.decoding.avro.decoder import AvroDecoder
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.payloads.decoder import decode_rows
from spark_pulsar.connector.schemas.types.arrow_types import arrow_type
from spark_pulsar.model.schemas import Schema, SchemaType
from tests.property.avro_schemas import Made, torn

LENIENT = ("utf", "symbol", "names a branch", "none of its type", "take no bytes", "ends early", "left over")
"""Reasons of payloads that the kernel refuses and the library does not: it accepts branches that it counts from the
end, numbers beyond 32 bits, and skips over an end."""


def definition(schema: Any) -> Definition:
    return Definition(Schema(SchemaType.AVRO, json.dumps(schema).encode()))


def written(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def both(decoder: AvroDecoder, payloads: list[bytes]) -> list[tuple[Any, Mapping[int, str]]]:
    """Rows and errors by column, and by the library."""
    plan, found = decoder._columns, []
    for columns in (plan, None):
        decoder._columns = columns
        array, errors = decode_rows(decoder, pa.array(payloads, pa.binary()))
        array.validate(full=True)
        found.append((array.to_pylist(), errors))
    decoder._columns = plan
    return found


def check(random: Random) -> bool:
    """Decodes made-up payloads in both ways; returns whether the schemas can be read by column."""
    made = Made(random)
    older = made.record(3)
    newer = made.newer(older) if random.random() < 0.7 else older
    if isinstance(newer, list):
        newer = newer[1]
    payloads = [written(older, made.value(older)) for _ in range(random.choice([1, 5, 40]))]
    try:
        read, write = definition(newer), definition(older)
        columns = list(arrow_type(read.avro()))
        chosen = random.sample(columns, random.randint(1, len(columns)))  # some columns of a read, in any order
        decoder = AvroDecoder(read, write, pa.struct(chosen if random.random() < 0.5 else columns))
    except SchemaError:
        return False
    if decoder._columns is None:
        return False
    (rows, errors), (expected, other) = both(decoder, payloads)
    assert sorted(errors) == sorted(other), (errors, other, older, newer)
    assert repr(rows) == repr(expected), (rows, expected, older, newer)
    hostile = [torn(random, random.choice(payloads)) for _ in range(30)]
    (rows, errors), (expected, other) = both(decoder, hostile)
    for row, payload in enumerate(hostile):
        if row in errors:
            assert row in other or any(each in errors[row].lower() for each in LENIENT), (
                errors[row],
                payload,
                older,
                newer,
            )
        else:
            # the library checks texts that become bytes
            assert row not in other or "utf" in other[row], (other[row], payload, older, newer)
            assert row in other or repr(rows[row]) == repr(expected[row]), (
                payload,
                rows[row],
                expected[row],
                older,
                newer,
            )
    return True


@given(st.integers(0, 2**63))
def test_records_by_column_are_what_the_library_reads(seed: int) -> None:
    # covers SCHEMA-19
    check(Random(seed))
