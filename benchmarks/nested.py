"""Records of 30 fields in three levels, beside records of 30 flat fields: decoded and encoded as AVRO and JSON, in rows
a second of processor time on one core, in turns in one run; `--each` adds each kind of field by itself."""

from __future__ import annotations

import argparse
import base64
import decimal
import io
import json
import time
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
from load.results import Results, add_option

from spark_pulsar.connector.schemas.decoding.messages import MessageDecoder
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.encoding.avro_payloads import encode_avro
from spark_pulsar.connector.schemas.encoding.json_payloads import JsonForm, encode_json
from spark_pulsar.connector.schemas.linked_definition import linked
from spark_pulsar.connector.schemas.types.columns import value_columns
from spark_pulsar.model.schemas import Schema, SchemaType

ROWS = 10_000
BATCH = 5_000
Field = tuple[str, Any, Callable[[int], Any]]
"""Name, Avro type and value of row i."""


def nullable(kind: Any) -> list[Any]:
    """A union with null."""
    return ["null", kind]


def record(name: str, *fields: tuple[str, Any]) -> dict[str, Any]:
    """A record inside."""
    return {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields]}


def price(precision: int) -> dict[str, Any]:
    """A decimal of two digits behind the point."""
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": 2}


STOP = record(
    "Stop", ("code", "string"), ("minutes", "int"), ("at", {"type": "long", "logicalType": "timestamp-millis"})
)
LEG_FIELDS = (("origin", "string"), ("miles", nullable("double")), ("stops", {"type": "array", "items": STOP}))
LEG = record("Leg", *LEG_FIELDS)
PLACE = record(
    "Place", ("name", "string"), ("terminal", nullable(record("Terminal", ("gate", "string"), ("floor", "int"))))
)
CREW_FIELDS = (("pilot", "string"), ("hours", "int"), ("license", nullable("long")))
CREW = record("Crew", *CREW_FIELDS)
METER = record("Meter", ("count", "long"), ("sum", "double"))
OWNER = record("Owner", ("name", "string"), ("shares", {"type": "map", "values": "int"}))
PLANE = record("Plane", ("tail", "string"), ("year", "int"), ("owner", nullable(OWNER)))


def stop(i: int) -> dict[str, Any]:
    return {"code": f"S{i % 90}", "minutes": i % 70, "at": 1_700_000_000_000 + i}


def leg(i: int) -> dict[str, Any]:
    return {"origin": "JFK", "miles": i / 8 if i % 3 else None, "stops": [stop(i + j) for j in range(i % 3)]}


def crew(i: int) -> dict[str, Any]:
    return {"pilot": f"pilot {i % 50}", "hours": i % 9000, "license": i if i % 2 else None}


def plane(i: int) -> dict[str, Any]:
    owner = {"name": "bank", "shares": {"a": i % 7, "b": 3}} if i % 4 else None
    return {"tail": f"N{i}", "year": 1990 + i % 30, "owner": owner}


FLAT: list[Field] = [
    ("id", "long", lambda i: i),
    ("carrier", "string", lambda i: f"carrier-{i % 17}"),
    ("tail", nullable("string"), lambda i: f"N{i}" if i % 3 else None),
    ("minutes", "int", lambda i: i % 90),
    ("distance", "double", lambda i: i / 7),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}, lambda i: 1_700_000_000_000 + i),
]
NESTED: list[Field] = [
    *FLAT,
    ("late", "boolean", lambda i: i % 3 == 0),
    ("ratio", nullable("float"), lambda i: i / 4 if i % 2 else None),
    ("updated", nullable({"type": "long", "logicalType": "timestamp-micros"}), lambda i: 10**15 + i if i % 5 else None),
    ("day", {"type": "int", "logicalType": "date"}, lambda i: 19_000 + i % 365),
    ("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}, lambda i: "ABC"[i % 3]),
    ("digest", {"type": "fixed", "name": "Digest", "size": 16}, lambda i: bytes(range(16))),
    ("payload", "bytes", lambda i: b"payload %d" % i),
    ("fare", price(12), lambda i: decimal.Decimal(i * 7) / 100),
    ("tax", nullable(price(9)), lambda i: decimal.Decimal(i) / 100 if i % 3 else None),
    ("numbers", {"type": "array", "items": "int"}, lambda i: [i, i + 1, i % 5]),
    (
        "words",
        nullable({"type": "array", "items": nullable("string")}),
        lambda i: ["a", None, f"w{i}"] if i % 4 else None,
    ),
    ("leg", LEG, leg),
    (
        "origin",
        nullable(PLACE),
        lambda i: {"name": "JFK", "terminal": {"gate": "A1", "floor": i % 4} if i % 2 else None},
    ),
    ("crew", {"type": "array", "items": CREW}, lambda i: [crew(i + j) for j in range(2)]),
    (
        "legs",
        nullable({"type": "array", "items": LEG}),
        lambda i: [leg(i + j) for j in range(2)] if i % 5 else None,
    ),
    ("plane", nullable(PLANE), plane),
    ("tags", {"type": "map", "values": "string"}, lambda i: {"x": f"{i}", "y": "2"}),
    ("limits", nullable({"type": "map", "values": "long"}), lambda i: {"low": i, "high": i * 2} if i % 3 else None),
    (
        "meters",
        {"type": "map", "values": METER},
        lambda i: {"cpu": {"count": i, "sum": i / 3}, "disk": {"count": 1, "sum": 2.5}},
    ),
    ("mixed", ["null", "long", "string"], lambda i: (None, i, f"t{i}")[i % 3]),
    ("choice", ["long", "string", CREW], lambda i: (i, "text", crew(i))[i % 3]),
    ("gates", {"type": "array", "items": nullable("int")}, lambda i: [1, None, i]),
    ("note", nullable("string"), lambda i: f'said "{i}"\n' if i % 2 else None),
    ("seen", nullable("boolean"), lambda i: (None, True, False)[i % 3]),
]
WIDE: list[Field] = [(f"{name}{n}", kind, value) for n in range(5) for name, kind, value in FLAT]


def definition(fields: list[Field], aliased: bool = False) -> dict[str, Any]:
    """The definition of the fields; `aliased` has other names for them, and the written ones as aliases."""
    named = [{"name": name, "type": kind} for name, kind, _ in fields]
    if aliased:
        named = [{"name": f"{each['name']}_2", "type": each["type"], "aliases": [each["name"]]} for each in named]
    known: set[str] = set()
    return {"type": "record", "name": "Flight", "fields": [_defined_once(each, known) for each in named]}


def _defined_once(kind: Any, known: set[str]) -> Any:
    """Returns a type that names the types that are defined before."""
    if isinstance(kind, list):
        return [_defined_once(each, known) for each in kind]
    if not isinstance(kind, dict):
        return kind
    if "fields" in kind or "size" in kind or "symbols" in kind:
        if kind["name"] in known:
            return kind["name"]
        known.add(kind["name"])
    return {key: _defined_once(value, known) if key != "aliases" else value for key, value in kind.items()}


def rows_of(fields: list[Field], rows: int = ROWS) -> list[dict[str, Any]]:
    """Records of the fields."""
    return [{name: value(i) for name, _, value in fields} for i in range(rows)]


def avro_payloads(fields: list[Field], rows: int = ROWS) -> list[bytes]:
    """Records of the fields in AVRO."""
    text = json.dumps(definition(fields))
    for unit in ("millis", "micros"):  # the library has those as datetimes
        text = text.replace(f', "logicalType": "timestamp-{unit}"', "")
    parsed, out = fastavro.parse_schema(json.loads(text.replace(', "logicalType": "date"', ""))), []
    for row in rows_of(fields, rows):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, row)
        out.append(stream.getvalue())
    return out


def _json_form(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return float(value)
    raise TypeError


def json_payloads(fields: list[Field], rows: int = ROWS) -> list[bytes]:
    """Records of the fields in JSON."""
    return [json.dumps(row, default=_json_form, separators=(",", ":")).encode() for row in rows_of(fields, rows)]


class Way:
    """Payloads of fields, decoded, and their columns, encoded."""

    def __init__(self, kind: SchemaType, fields: list[Field], aliased: bool = False) -> None:
        self.kind = kind
        written = Definition(Schema(kind, json.dumps(definition(fields)).encode()), "Flight", b"\0" * 8)
        reader = Definition(Schema(kind, json.dumps(definition(fields, aliased)).encode()), "Flight", b"\0" * 7 + b"\1")
        payloads = avro_payloads(fields) if kind is SchemaType.AVRO else json_payloads(fields)
        self._batches = [pa.array(payloads[i : i + BATCH], pa.binary()) for i in range(0, ROWS, BATCH)]
        self._versions = pa.array([0 if aliased else 1] * BATCH, pa.int64())
        self._decoder = MessageDecoder(reader, value_columns(reader), lambda version: reader if version else written)
        self._definition = linked(definition(fields, aliased))
        self._columns = [self._decoded(batch) for batch in self._batches]

    def _decoded(self, batch: Any) -> Any:
        decoded = self._decoder.decode(batch, None, self._versions)
        assert not decoded.errors, decoded.errors
        return pa.StructArray.from_arrays(list(decoded.columns.values()), names=list(decoded.columns))

    def decode(self) -> None:
        """Decodes all payloads."""
        for batch in self._batches:
            self._decoded(batch)

    def encode(self) -> None:
        """Encodes all columns."""
        for columns in self._columns:
            if self.kind is SchemaType.AVRO:
                encode_avro(columns, self._definition)
            else:
                encode_json(columns, self._definition, JsonForm())


def rates(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Rows a second of the best round of each, by processor time, in turns."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            begun = time.thread_time()
            way()
            best[name] = min(best[name], time.thread_time() - begun)
    return {name: ROWS / seconds for name, seconds in best.items()}


def show(kind: SchemaType, cases: dict[str, Way], rounds: int, results: Results) -> None:
    """Notes and prints a line for each case, and how much slower it is than the first one."""
    ways = {f"{name}, {what}": getattr(way, what) for name, way in cases.items() for what in ("decode", "encode")}
    found = rates(ways, rounds)
    first = next(iter(cases))
    for name, rate in found.items():
        clean = found[f"{first}, {name.rpartition(', ')[2]}"]
        slower = f"{1e6 / rate:6.2f} s a million, {clean / rate:5.1f} x slower"
        results.note_all({f"{name}, rows/s": rate, f"{name}, s a million": 1e6 / rate}, kind.name)
        print(f"{kind.name}: {name:<40} {rate:>12,.0f} rows/s, {slower}")


def main() -> None:
    """Prints a line for each case."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--each", action="store_true", help="each kind of field by itself, too")
    arguments.add_argument("--only", default="AVRO,JSON")
    arguments.add_argument("--rounds", type=int, default=5)
    add_option(arguments)
    given = arguments.parse_args()
    results = Results()
    for kind in (SchemaType.AVRO, SchemaType.JSON):
        if kind.name not in given.only:
            continue
        cases = {"30 flat fields": Way(kind, WIDE), "30 fields, three levels": Way(kind, NESTED)}
        if kind is SchemaType.AVRO:
            cases["30 fields, three levels, aliases"] = Way(kind, NESTED, aliased=True)
        show(kind, cases, given.rounds, results)
        if given.each:
            one = {"6 flat fields": Way(kind, FLAT)}
            for field in NESTED[len(FLAT) :]:
                one[f"and {field[0]}"] = Way(kind, [*FLAT, field])
            show(kind, one, given.rounds, results)
    results.store(given.json)


if __name__ == "__main__":
    main()
