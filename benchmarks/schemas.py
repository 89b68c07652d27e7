"""Decoding and encoding of payloads by their schema, in rows a second of processor time on one core.

`--against spark` adds the same through Spark, from and to a topic, beside `from_avro`, `from_json`, `to_avro` and
`to_json`, with `--nested` of records in three levels: see `spark_schemas.py`. Spark's module for AVRO comes from Maven
Central."""

from __future__ import annotations

import argparse
import io
import json
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from load.results import Results, add_option

from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.schemas.decoding.evolution import Evolution
from spark_pulsar.connector.schemas.decoding.messages import MessageDecoder
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.deriving.avro_definition import derive_record
from spark_pulsar.connector.schemas.deriving.row_schema import derive_row_schema
from spark_pulsar.connector.schemas.types.columns import value_columns
from spark_pulsar.model.schemas import Schema, SchemaType

ROWS = 100_000
BATCH = 10_000
FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "carrier", "type": "string"},
    {"name": "tail", "type": ["null", "string"], "default": None},
    {"name": "minutes", "type": "int"},
    {"name": "distance", "type": "double"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
]
ARROW = {"long": pa.int64(), "string": pa.string(), "integer": pa.int32(), "double": pa.float64()}
RECORD = {"type": "record", "name": "Flight", "fields": FIELDS}


def rows() -> list[dict[str, Any]]:
    """Records of a flight."""
    return [
        {"id": i, "carrier": "AA", "tail": f"N{i}" if i % 3 else None, "minutes": i % 90, "distance": i / 7, "at": i}
        for i in range(ROWS)
    ]


def avro_payloads() -> list[bytes]:
    """Payloads of the records in AVRO."""
    plain = json.loads(json.dumps(RECORD).replace(', "logicalType": "timestamp-millis"', ""))
    schema, out = fastavro.parse_schema(plain), []
    for row in rows():
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, row)
        out.append(stream.getvalue())
    return out


def rate(decode: Callable[[], Any], rounds: int) -> float:
    """Rows a second of the best round, by processor time."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.thread_time()
        decode()
        best = min(best, time.thread_time() - begun)
    return ROWS / best


RESCUE = Evolution("topic", "rescue", True, lambda: None)


def measure(
    kind: SchemaType, data: bytes, payloads: list[bytes], rounds: int, evolution: Evolution | None = None
) -> float:
    """Rows a second that a task decodes."""
    definition = Definition(Schema(kind, data))
    batches = [pa.array(payloads[i : i + BATCH], pa.binary()) for i in range(0, ROWS, BATCH)]
    versions = pa.array([-1] * BATCH, pa.int64())
    decoder = MessageDecoder(definition, value_columns(definition), lambda _: None, evolution=evolution)

    def all_of_them() -> None:
        for batch in batches:
            assert not decoder.decode(batch, None, versions).errors

    return rate(all_of_them, rounds)


def with_new_field(texts: list[bytes]) -> list[bytes]:
    """Returns objects of which every tenth has a field that the schema does not name."""
    return [text if i % 10 else text[:-1] + b', "gate": "A1"}' for i, text in enumerate(texts)]


def encoding(rounds: int) -> dict[str, float]:
    """Rows a second that a task of the sink encodes, and that fastavro does, from the same columns."""
    options = {"service.url": "pulsar://localhost:6650", "topic": "t"}
    types = {"id": "long", "carrier": "string", "tail": "string", "minutes": "integer", "distance": "double"}
    fields = [{"name": name, "type": kind, "nullable": True} for name, kind in types.items()]
    table = pa.Table.from_pylist(rows(), schema=pa.schema([(name, ARROW[kind]) for name, kind in types.items()]))
    batches = [table.slice(first, BATCH) for first in range(0, ROWS, BATCH)]
    found = {}
    for kind in ("AVRO", "JSON"):
        written = derive_row_schema(fields, parse_options({**options, "schemaType": kind}))
        assert written is not None
        found[kind] = rate(lambda schema=written: [schema.encode(batch) for batch in batches], rounds)
    parsed = fastavro.parse_schema(derive_record({"fields": fields}))
    found["fastavro"] = rate(lambda: [written_by_fastavro(parsed, batch) for batch in batches], rounds)
    return found


def written_by_fastavro(schema: Any, batch: pa.Table) -> list[bytes]:
    """Payloads of the rows, one by one."""
    payloads = []
    for row in batch.to_pylist():
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        payloads.append(out.getvalue())
    return payloads


def main() -> None:
    """Prints a line for each schema."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--against", choices=["spark"])
    arguments.add_argument("--nested", action="store_true", help="through Spark: records in three levels")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--rows", type=int, default=2_000_000, help="through Spark")
    arguments.add_argument("--data", type=Path, default=Path("data"), help="directory on the disk to use")
    add_option(arguments)
    given = arguments.parse_args()
    results = Results()
    data = json.dumps(RECORD).encode()
    avro, texts = avro_payloads(), [json.dumps(row).encode() for row in rows()]
    cases = (
        (SchemaType.AVRO, data, avro),
        (SchemaType.JSON, data, texts),
        (SchemaType.INT64, b"", [struct.pack(">q", i) for i in range(ROWS)]),
        (SchemaType.STRING, b"", texts),
    )
    for kind, definition, payloads in cases:
        rows_a_second = measure(kind, definition, payloads, given.rounds)
        results.note(f"decode {kind.name}, rows/s", rows_a_second)
        print(f"{kind.name:>10}: {rows_a_second:>14,.0f} rows/s of one core")
    rescued = (
        (SchemaType.AVRO, avro, ""),
        (SchemaType.JSON, texts, ""),
        (SchemaType.JSON, with_new_field(texts), ", a new field in every tenth"),
    )
    for kind, payloads, traffic in rescued:
        rows_a_second = measure(kind, data, payloads, given.rounds, RESCUE)
        print(f"{kind.name:>10}: {rows_a_second:>14,.0f} rows/s of one core, schemaEvolutionMode rescue{traffic}")
    for name, rows_a_second in encoding(given.rounds).items():
        results.note(f"encode {name}, rows/s", rows_a_second)
        print(f"{name:>10}: {rows_a_second:>14,.0f} rows/s of one core, encoded")
    if given.against:
        import spark_schemas

        spark_schemas.measure(given.rows, given.rounds, given.data, results, nested=given.nested)
    results.store(given.json)


if __name__ == "__main__":
    main()
