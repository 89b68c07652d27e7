"""Cliffs of decoding: each case beside its clean twin, without Spark, in rows a second of processor time on one core.

A task's way from stored entries to the columns of the read: entries are unpacked, their metadata become columns, values
are decoded by their schema. `--only WORD` runs some cases, `--rounds 9` measures longer.
"""

from __future__ import annotations

import argparse
import io
import json
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro
import pyarrow as pa
from load.results import Results, add_option
from wire import joined, stored

from spark_pulsar.client.schema_requests import RegisteredSchema
from spark_pulsar.connector.options.decode_mode import PERMISSIVE, DecodeMode
from spark_pulsar.connector.schemas.decoding.batches import BatchDecoder
from spark_pulsar.connector.schemas.decoding.plan import Decoding
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.types.columns import value_columns
from spark_pulsar.model.schemas import Schema, SchemaType, join_key_and_value
from spark_pulsar.wire.columns.encode import encode_batches, message_columns
from spark_pulsar.wire.columns.entries import Entries
from spark_pulsar.wire.columns.key_hashes import text_keys
from spark_pulsar.wire.columns.records import RecordDecoder
from spark_pulsar.wire.entries.compression import compress
from spark_pulsar.wire.pulsar_api_pb2 import LZ4, MessageMetadata

ROWS = 20_000
TOPIC = "persistent://public/default/t"
METADATA = ("__key", "__messageId", "__publishTime", "__eventTime", "__messageProperties")
FLAT = [
    {"name": "id", "type": "long"},
    {"name": "carrier", "type": "string"},
    {"name": "tail", "type": ["null", "string"], "default": None},
    {"name": "minutes", "type": "int"},
    {"name": "distance", "type": "double"},
    {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
]
LEG = {"type": "record", "name": "Leg", "fields": [{"name": "a", "type": "string"}, {"name": "b", "type": "int"}]}


@dataclass
class Read:
    """Entries of a topic, and how they are read."""

    entries: Entries
    definition: Definition | None
    older: Definition | None = None
    mode: str = "FAILFAST"
    names: tuple[str, ...] = METADATA


class Registry:
    """Schemas of the topic by version, as the client of a task gives them."""

    config = "benchmark"

    def __init__(self, versions: Sequence[Definition | None]) -> None:
        self._versions = versions

    def schema_of(self, topic: str, version: bytes) -> RegisteredSchema | None:
        """Returns the schema of a version."""
        found = self._versions[int.from_bytes(version, "big")]
        return None if found is None else RegisteredSchema(found.name, found.schema, version)


def definition(kind: SchemaType, fields: list[dict[str, Any]], version: int = 1) -> Definition:
    """A schema of a record."""
    data = json.dumps({"type": "record", "name": "Flight", "fields": fields}).encode()
    return Definition(Schema(kind, data), "Flight", version.to_bytes(8, "big"))


def row(i: int) -> dict[str, Any]:
    """A record of a flight, with more fields than most schemas have."""
    return {
        "id": i,
        "carrier": "AA",
        "tail": f"N{i}" if i % 3 else None,
        "minutes": i % 90,
        "distance": i / 7,
        "kind": "AB"[i % 2],
        "numbers": [i, 2, 3],
        "legs": [{"a": "JFK", "b": i}, {"a": "LHR", "b": 2}],
        "leg": {"a": "JFK", "b": i},
        "tags": {"x": "1", "y": "2"},
    }


def encoded(schema: Definition, values: list[dict[str, Any]]) -> list[bytes]:
    """Payloads of a schema."""
    if schema.type is SchemaType.JSON:
        names = [each["name"] for each in json.loads(schema.schema.data)["fields"]]
        return [json.dumps({name: value[name] for name in names}).encode() for value in values]
    parsed, out = fastavro.parse_schema(json.loads(schema.schema.data)), []
    for value in values:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value)
        out.append(stream.getvalue())
    return out


def entries_of(
    payloads: list[bytes],
    *,
    batch: int = 1_000,
    versions: tuple[int, ...] = (),
    properties: Any = None,
    keys: Any = None,
    event_times: Any = None,
    packed: tuple[bool, ...] = (False,),
) -> Entries:
    """Payloads as stored batches; versions, and whether they are compressed, in turn."""
    columns = message_columns(
        pa.array(payloads, pa.binary()),
        keys=None if keys is None else text_keys(keys),
        properties=properties,
        event_times=event_times,
    )
    parts = []
    for i, one in enumerate(encode_batches(columns, max_messages=batch, max_bytes=1 << 30)):
        metadata = MessageMetadata(producer_name="bench", publish_time=1_700_000_000_000)
        one.describe(metadata)
        if versions:
            metadata.schema_version = versions[i % len(versions)].to_bytes(8, "big")
        payload: Any = one.payload
        if packed[i % len(packed)]:
            metadata.compression, metadata.uncompressed_size = LZ4, len(payload)
            payload = compress(LZ4, payload)
        parts.append(stored(metadata, payload))
    return joined(parts)


def rate(read: Read, rounds: int) -> float:
    """Rows a second of the best round, by processor time."""
    wanted = () if read.definition is None else tuple((each.name, each.type) for each in value_columns(read.definition))
    decoding = Decoding(read.definition, wanted, DecodeMode(read.mode))
    names = [name for name, _ in wanted] + [name for name, _ in decoding.mode.columns()] + list(read.names)

    def work() -> int:
        registry: Any = Registry([read.older, read.definition])
        records = RecordDecoder(TOPIC, decoding.needed(names) if wanted else read.names)
        if not wanted:
            return sum(len(batch) for batch in records.batches(read.entries))
        with BatchDecoder(registry, TOPIC, 0, decoding, names) as decoder:
            return sum(len(decoder.decode(batch)) for batch in records.batches(read.entries))

    best = float("inf")
    for _ in range(rounds + 1):  # the first one loads kernels
        begun = time.thread_time()
        rows = work()
        best = min(best, time.thread_time() - begun)
    return rows / best


@dataclass
class Cases:
    """Pairs of a clean read and the same with something in it that may be dear."""

    found: list[tuple[str, Read, Read]] = field(default_factory=list)

    def add(self, name: str, clean: Read, case: Read) -> None:
        """Adds a pair."""
        self.found.append((name, clean, case))


def versions_and_errors(cases: Cases) -> None:
    """Two versions in turn, and every second message undecodable."""
    values = [row(i) for i in range(ROWS)]
    for kind in (SchemaType.AVRO, SchemaType.JSON):
        newer, older = definition(kind, FLAT), definition(kind, FLAT[:5], 0)
        new, old = encoded(newer, values), encoded(older, values)
        mixed = [old[i] if i % 2 == 0 else new[i] for i in range(ROWS)]
        clean = Read(entries_of(new, batch=1, versions=(1,)), newer)
        turn = Read(entries_of(mixed, batch=1, versions=(0, 1)), _with_default(newer), older)
        cases.add(f"{kind.name}: two schema versions in turn", clean, turn)
        clean = Read(entries_of(new), newer, mode=PERMISSIVE)
        bad = [each if i % 2 else each[:-3] for i, each in enumerate(new)]
        cases.add(
            f"{kind.name}: every second message undecodable", clean, Read(entries_of(bad), newer, mode=PERMISSIVE)
        )
    texts = [f"text {i}".encode() for i in range(ROWS)]
    numbers = [struct.pack(">q", i) for i in range(ROWS)]
    pairs = [join_key_and_value(text, number) for text, number in zip(texts, numbers, strict=True)]
    types = {"key.schema.type": "STRING", "value.schema.type": "INT64", "kv.encoding.type": "INLINE"}
    for name, payloads, schema in (
        ("STRING", texts, Schema(SchemaType.STRING, b"")),
        ("INT64", numbers, Schema(SchemaType.INT64, b"")),
        ("KEY_VALUE", pairs, Schema(SchemaType.KEY_VALUE, join_key_and_value(b"", b""), types)),
    ):
        bad = [each if i % 2 else each[:-1] + b"\xff\xfe" for i, each in enumerate(payloads)]
        cases.add(
            f"{name}: every second message undecodable",
            Read(entries_of(payloads), Definition(schema), mode=PERMISSIVE),
            Read(entries_of(bad), Definition(schema), mode=PERMISSIVE),
        )


def _with_default(newer: Definition) -> Definition:
    record = json.loads(newer.schema.data)
    record["fields"][-1]["default"] = "A"
    return Definition(Schema(newer.type, json.dumps(record).encode()), newer.name, newer.version)


def shapes(cases: Cases) -> None:
    """AVRO and JSON of other shapes than flat ones, or written with another version."""
    values = [row(i) for i in range(ROWS)]
    flat = definition(SchemaType.AVRO, FLAT)
    clean = Read(entries_of(encoded(flat, values), versions=(1,)), flat)

    def evolved(name: str, read: list[dict[str, Any]], written: list[dict[str, Any]] = FLAT) -> None:
        reader, writer = definition(SchemaType.AVRO, read), definition(SchemaType.AVRO, written, 0)
        entries = entries_of(encoded(writer, values), versions=(0,))
        cases.add(f"AVRO: {name}", clean, Read(entries, reader, writer))

    def with_one(kind: Any) -> list[dict[str, Any]]:
        return [*FLAT, kind]

    for name, added in (
        ("an array", {"name": "numbers", "type": {"type": "array", "items": "int"}}),
        ("an array of records", {"name": "legs", "type": {"type": "array", "items": LEG}}),
        ("a record", {"name": "leg", "type": ["null", LEG]}),
        ("a map", {"name": "tags", "type": {"type": "map", "values": "string"}}),
        ("a union", {"name": "minutes2", "type": ["null", "int", "string"], "default": None}),
    ):
        fields = with_one(added)
        evolved(name, fields, fields if added["name"] != "minutes2" else FLAT)
    alias = [{**FLAT[0], "name": "number", "aliases": ["id"]}, *FLAT[1:]]
    evolved("an alias", alias)
    evolved("a default that is not null", with_one({"name": "more", "type": "string", "default": "x"}))
    evolved("int that became long", [*FLAT[:3], {"name": "minutes", "type": "long"}, *FLAT[4:]])
    grown = {"type": "enum", "name": "Kind", "symbols": ["B", "A", "C"]}
    evolved("an enum that grew", [*FLAT[:5], {"name": "kind", "type": grown}])
    _json_shapes(cases, values)
    _wide_and_null(cases)


def _json_shapes(cases: Cases, values: list[dict[str, Any]]) -> None:
    schema = definition(SchemaType.JSON, FLAT)
    payloads = encoded(schema, values)
    clean = Read(entries_of(payloads), schema)
    cases.add("JSON: a line break behind it", clean, Read(entries_of([each + b"\n" for each in payloads]), schema))
    spaced = [b"\r\n " + each.replace(b", ", b" ,\n\t") + b" " for each in payloads]
    cases.add("JSON: white space around everything", clean, Read(entries_of(spaced), schema))
    some = [each + b"\n" if i % 2 else each for i, each in enumerate(payloads)]
    cases.add("JSON: a line break behind every second", clean, Read(entries_of(some), schema))
    texts = [json.dumps({**value, "carrier": "日本é"}, ensure_ascii=False).encode() for value in values]
    plain = [json.dumps({**value, "carrier": "abcdef"}).encode() for value in values]
    cases.add("JSON: text beyond ASCII", Read(entries_of(plain), schema), Read(entries_of(texts), schema))
    for name, added in (
        ("an array of records", {"name": "legs", "type": {"type": "array", "items": LEG}}),
        ("a map", {"name": "tags", "type": {"type": "map", "values": "string"}}),
    ):
        nested = definition(SchemaType.JSON, [*FLAT, added])
        cases.add(f"JSON: {name}", clean, Read(entries_of(encoded(nested, values)), nested))


def _wide_and_null(cases: Cases) -> None:
    for kind in (SchemaType.AVRO, SchemaType.JSON):
        fields = [{"name": f"f{i}", "type": ["null", "string"], "default": None} for i in range(20)]
        schema = definition(kind, fields)
        full = encoded(schema, [{f"f{i}": "text" for i in range(20)}] * (ROWS // 4))
        null = encoded(schema, [dict.fromkeys(f"f{i}" for i in range(20))] * (ROWS // 4))
        cases.add(
            f"{kind.name}: nulls in all of 20 columns", Read(entries_of(full), schema), Read(entries_of(null), schema)
        )
    text = definition(SchemaType.AVRO, [{"name": "s", "type": "string"}])
    ascii_, other = (encoded(text, [{"s": each * 10}] * ROWS) for each in ("abcdefg", "日é"))
    cases.add("AVRO: text beyond ASCII", Read(entries_of(ascii_), text), Read(entries_of(other), text))


def metadata(cases: Cases) -> None:
    """What stands beside the payload, and how messages lie in entries."""
    values = [b"x" * 100] * ROWS
    names = [f"key-{i % 997}" for i in range(ROWS)]
    keyed = Read(entries_of(values, keys=pa.array(names)), None)
    some = [name if i % 2 else None for i, name in enumerate(names)]
    cases.add("keys of every second message", keyed, Read(entries_of(values, keys=pa.array(some)), None))
    times = pa.array([i + 1 for i in range(ROWS)], pa.timestamp("ms"))
    sometimes = pa.array([i + 1 if i % 2 else None for i in range(ROWS)], pa.timestamp("ms"))
    timed = Read(entries_of(values, event_times=times), None)
    cases.add("event times of every second message", timed, Read(entries_of(values, event_times=sometimes), None))
    packed = Read(entries_of(values, batch=100, packed=(True,)), None)
    cases.add("every second entry compressed", packed, Read(entries_of(values, batch=100, packed=(True, False)), None))
    cases.add("entries of one message", Read(entries_of(values), None), Read(entries_of(values, batch=1), None))
    _properties(cases, values)


def _properties(cases: Cases, values: list[bytes]) -> None:
    def read(names: Any, value: Callable[[int, int], str] = lambda row, i: "value") -> Read:
        pairs = [[(name, value(row, i)) for i, name in enumerate(names(row))] for row in range(len(values))]
        return Read(entries_of(values, properties=pa.array(pairs, pa.map_(pa.string(), pa.string()))), None)

    forty = [f"property-{i:02d}" for i in range(40)]
    same = read(lambda row: forty)
    cases.add("40 properties, by row", read(lambda row: forty[:2]), same)
    cases.add("properties of other lengths", same, read(lambda row: forty, lambda row, i: "value" * ((row + i) % 3)))
    cases.add("properties in two orders in turn", same, read(lambda row: forty[:: 1 if row % 2 else -1]))
    cases.add("properties in five orders in turn", same, read(lambda row: forty[row % 5 :] + forty[: row % 5]))
    cases.add("properties with a name twice", same, read(lambda row: [*forty[:39], forty[7]]))
    hundred = [f"property-{i:02d}" for i in range(100)]
    cases.add(
        "100 properties, each row its own order", same, read(lambda row: hundred[row % 97 :] + hundred[: row % 97])
    )


GROUPS: dict[str, Callable[[Cases], None]] = {"versions": versions_and_errors, "shapes": shapes, "metadata": metadata}


def main() -> None:
    """Prints a line for each case."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", default="", help="cases with this text in their names")
    arguments.add_argument("--rounds", type=int, default=5)
    add_option(arguments)
    given = arguments.parse_args()
    results = Results()
    cases, dearest = Cases(), 0.0
    for make in GROUPS.values():
        make(cases)
    print(f"{'rows/s of one core':<45} {'clean':>12} {'case':>12}  clean is")
    for name, clean, case in cases.found:
        if given.only in name:
            fast, slow = rate(clean, given.rounds), rate(case, given.rounds)
            results.note_all({"clean, rows/s": fast, "case, rows/s": slow, "times slower": fast / slow}, name)
            dearest = max(dearest, fast / slow)
            print(f"{name:<45} {fast:>12,.0f} {slow:>12,.0f}  {fast / slow:.1f} x")
    results.note("dearest, times slower", dearest)
    results.store(given.json)


if __name__ == "__main__":
    main()
