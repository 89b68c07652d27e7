"""What official clients register and write, recorded: `python -m tests.clients.recorded_schemas` writes it anew.

The Java program beside it has the classes, and reads the cases of resolution with Avro's Java library. The tests that
use the file start no JVM.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from enum import Enum
from pathlib import Path
from typing import Any

from pulsar.schema import (
    Array,
    AvroSchema,
    Boolean,
    Bytes,
    CustomEnum,
    Double,
    Integer,
    JsonSchema,
    Long,
    Map,
    Record,
    String,
)

from tests.apache_pulsar.start import class_path

RECORDED = Path(__file__).with_name("recorded_schemas.json")
_PROGRAM = Path(__file__).with_name("java") / "RecordedSchemas.java"


# ---- cases of resolution ----------------------------------------------------------------------------------------


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    """A record; a field is its type, or a pair of its type and further attributes."""
    made = []
    for field, kind in fields.items():
        kind, more = kind if isinstance(kind, tuple) else (kind, {})
        made.append({"name": field, "type": kind, **more})
    return {"type": "record", "name": name, "fields": made}


def enum(name: str, *symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def items(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": kind}


def values(kind: Any) -> dict[str, Any]:
    return {"type": "map", "values": kind}


def fixed(name: str, size: int) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


DEFAULT: dict[str, Any] = {"default": None}
CASES: dict[str, tuple[Any, Any, Any]] = {
    "top_level_name": (record("topLevelRecord", a="int"), record("com.example.R", a="int"), {"a": 1}),
    "inner_names": (
        record("W", a=record("w.N", x="int"), b=items(record("w.M", x="int")), c=values("w.M")),
        record("R", a=record("r.K", x="long"), b=items("r.K"), c=values("r.K")),
        {"a": {"x": 1}, "b": [{"x": 2}], "c": {"k": {"x": 3}}},
    ),
    "one_type_for_two": (
        record("W", a=record("N", x="int"), b="N"),
        record("R", a=record("K", x="int"), b=record("L", x=("int", {}), y=("int", {"default": 4}))),
        {"a": {"x": 1}, "b": {"x": 2}},
    ),
    "nullable_name": (
        record("W", a=["null", record("N", x="int")]),
        record("R", a=["null", record("K", x="int")]),
        {"a": {"N": {"x": 1}}},
    ),
    "union_by_structure": (
        record("W", a=["null", record("A", x="int"), record("B", y="string")]),
        record("R", a=["null", record("C", y="string"), record("D", x="int")]),
        {"a": {"B": {"y": "v"}}},
    ),
    "union_by_name": (
        record("W", a=[record("A", x="int"), record("B", x="int")]),
        record("R", a=["null", record("B", x="int"), record("A", x="int")]),
        {"a": {"A": {"x": 5}}},
    ),
    "union_by_namespace": (
        record("W", a=[record("p.I", x="int"), record("q.I", y="string")]),
        record("R", a=["null", record("q.I", y="string"), record("p.I", x="int")]),
        {"a": {"p.I": {"x": 5}}},
    ),
    "one_record_into_union": (
        record("W", a=record("A", x="int")),
        record("R", a=["null", record("B", y="string"), record("A", x="int")]),
        {"a": {"x": 5}},
    ),
    "nullable_record_into_union": (
        record("W", a=["null", record("A", x="int")]),
        record("R", a=["null", record("B", y="string"), record("A", x="int")]),
        {"a": {"A": {"x": 5}}},
    ),
    "alias_of_a_field": (
        record("R", old="string", b="int"),
        record("R", new=("string", {"aliases": ["old"]}), b="int"),
        {"old": "v", "b": 1},
    ),
    "alias_of_a_record": (
        record("W", a=record("Old", x="int")),
        record("W", a={**record("New", x="int"), "aliases": ["Old"]}),
        {"a": {"x": 1}},
    ),
    "alias_of_an_enum": (record("R", a=enum("Old", "X")), record("R", a=enum("New", "X", aliases=["Old"])), {"a": "X"}),
    "defaults": (
        record("R", a="int"),
        record(
            "R",
            a="int",
            b=("int", {"default": 7}),
            c=(["null", "string"], DEFAULT),
            d=("bytes", {"default": "\u00ff"}),
            e=(items("int"), {"default": [1]}),
            f=(record("N", x="int", y=("int", {"default": 3})), {"default": {"x": 2}}),
        ),
        {"a": 1},
    ),
    "promotions": (
        record("R", a="int", b="int", c="int", d="long", e="long", f="float", g="string", h="bytes"),
        record("R", a="long", b="float", c="double", d="float", e="double", f="double", g="bytes", h="string"),
        {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 1.5, "g": "x", "h": "y"},
    ),
    "promotions_into_unions": (
        record("R", a="int", b=["null", "int"], c="string"),
        record("R", a=["null", "double"], b=["long", "null"], c=["null", "bytes"]),
        {"a": 1, "b": {"int": 2}, "c": "x"},
    ),
    "exact_before_promotion": (record("R", a="string"), record("R", a=["null", "bytes", "string"]), {"a": "x"}),
    "added_removed_reordered": (
        record("R", a="int", gone="string", b="string"),
        record("R", b="string", c=("int", {"default": 1}), a="int"),
        {"a": 1, "gone": "x", "b": "y"},
    ),
    "became_nullable": (record("R", a="int"), record("R", a=(["null", "int"], DEFAULT)), {"a": 1}),
    "was_nullable": (record("R", a=["null", "int"]), record("R", a="int"), {"a": {"int": 1}}),
    "was_null": (record("R", a=["null", "int"]), record("R", a="int"), {"a": None}),
    "enum_grew": (record("R", a=enum("E", "X")), record("R", a=enum("E", "Y", "X")), {"a": "X"}),
    "enum_default": (record("R", a=enum("E", "X", "Z")), record("R", a=enum("E", "Y", "X", default="Y")), {"a": "Z"}),
    "enum_without_default": (record("R", a=enum("E", "X", "Z")), record("R", a=enum("E", "Y", "X")), {"a": "Z"}),
    "enum_of_another_namespace": (record("R", a=enum("p.E", "X")), record("R", a=enum("q.E", "X")), {"a": "X"}),
    "enum_beyond_ascii": (
        record("R", a=enum("E", "ROT", "GRÜN")),
        record("R", a=enum("E", "GRÜN", "ROT")),
        {"a": "GRÜN"},
    ),
    "recursive": (
        record("W", v="int", next=["null", "W"]),
        record("R", v="long", next=(["null", record("S", v="long")], DEFAULT)),
        {"v": 1, "next": {"W": {"v": 2, "next": None}}},
    ),
    "missing_field": (record("R", a="int"), record("R", a="int", b="int"), {"a": 1}),
    "other_type": (record("R", a="int"), record("R", a="string"), {"a": 1}),
    "narrower": (record("R", a="long"), record("R", a="int"), {"a": 1}),
    "fixed_of_another_size": (record("R", a=fixed("F", 2)), record("R", a=fixed("F", 3)), {"a": "xy"}),
    "other_items": (record("R", a=items("string")), record("R", a=items("int")), {"a": ["x"]}),
    "missing_field_inside": (
        record("R", a=["null", record("N", x="int")]),
        record("R", a=["null", record("N", y="int")]),
        {"a": {"N": {"x": 1}}},
    ),
}
"""Writer's schema, reader's schema, and a value of the writer in Avro's JSON."""


# ---- the Python client ------------------------------------------------------------------------------------------


class Color(Enum):
    RED = 1
    GREEN = 2


class Leg(Record):
    carrier = String()
    minutes = Integer(required=True)


class Flight(Record):
    _avro_namespace = "org.example"
    number = Long(required=True)
    tail = String(default="N0")
    gate = String(required=True, default="G0", required_default=True)
    late = Boolean()
    distance = Double()
    color = CustomEnum(Color)
    data = Bytes()
    legs = Array(Leg())
    tags = Map(String())
    first = Leg()


def of_python() -> dict[str, Any]:
    """Definitions and payloads of the official Python client."""
    value = Flight(
        number=9,
        tail="N9",
        gate="G",
        late=True,
        distance=1.5,
        color=Color.GREEN,
        data=b"ab",
        legs=[Leg(carrier="AA", minutes=1)],
        tags={"k": "v"},
        first=Leg(carrier=None, minutes=2),
    )
    found = {}
    for kind, make in (("AVRO", AvroSchema), ("JSON", JsonSchema)):
        schema = make(Flight)
        info = schema.schema_info()
        found[f"flight_{kind.lower()}"] = {
            "type": kind,
            "definition": info.schema(),
            "properties": {},
            "payload": schema.encode(value).hex(),
        }
    return found


def of_java() -> dict[str, Any]:
    """Definitions, payloads and resolutions of the official Java client."""
    cases = [
        {"name": name, "writer": writer, "reader": reader, "value": value}
        for name, (writer, reader, value) in CASES.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cases.json")
        path.write_text(json.dumps(cases))
        jars = class_path()
        subprocess.run(["javac", "-encoding", "UTF-8", "-d", folder, "-cp", jars, str(_PROGRAM)], check=True)
        run = [
            "java",
            "-Dfile.encoding=UTF-8",
            "-Dstdout.encoding=UTF-8",
            "-cp",
            f"{folder}:{jars}",
            _PROGRAM.stem,
            str(path),
        ]
        lines = subprocess.run(run, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout.splitlines()
    (line,) = (each.removeprefix("RECORDED ") for each in lines if each.startswith("RECORDED "))
    found: dict[str, Any] = json.loads(line)
    for name, one in found["resolutions"].items():
        one |= {"writer": CASES[name][0], "reader": CASES[name][1]}
    return found


if __name__ == "__main__":
    java = of_java()
    recorded = {"java": java["classes"], "python": of_python(), "resolutions": java["resolutions"]}
    RECORDED.write_text(json.dumps(recorded, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    sys.stdout.write(f"{RECORDED} has {len(recorded['resolutions'])} resolutions\n")
