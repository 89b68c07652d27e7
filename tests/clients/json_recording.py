"""Records what the official clients write as JSON for each type of a field: `python -m tests.clients.json_recording`.

The values that a read must give stand beside the payloads; those of cases that are there already are kept, new ones
are for the author to fill in.
"""

from __future__ import annotations

import enum
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pulsar.schema import (
    Array,
    Boolean,
    Bytes,
    CustomEnum,
    Double,
    Float,
    Integer,
    JsonSchema,
    Long,
    Map,
    Record,
    String,
)

from tests.apache_pulsar.start import class_path

HERE = Path(__file__).parent
RECORDED = HERE.parent / "unit" / "connector" / "schemas" / "decoding" / "json_of_clients.json"


class Color(enum.Enum):
    red = 1
    green = 2


class Word(enum.Enum):
    red = "RED"


class Inner(Record):
    id = Integer()
    name = String()


class Empty(Record):
    pass


PYTHON: dict[str, tuple[Any, Any]] = {
    "Boolean": (Boolean(), True),
    "Integer": (Integer(), -7),
    "Long": (Long(), 2**53 + 1),
    "Float": (Float(), 0.5),
    "FloatNaN": (Float(), float("nan")),
    "Double": (Double(), float("-inf")),
    "DoubleOfInt": (Double(), 3),
    "String": (String(), "é\u2028\U0001f600"),
    "Bytes": (Bytes(), b"abcd"),
    "BytesUtf8": (Bytes(), "é=".encode()),
    "BytesEmpty": (Bytes(), b""),
    "Enum": (CustomEnum(Color), Color.green),
    "EnumOfText": (CustomEnum(Word), Word.red),
    "Array": (Array(Integer()), [1, 2]),
    "ArrayOfBytes": (Array(Bytes()), [b"abcd"]),
    "Map": (Map(String()), {"a": "b"}),
    "MapOfInts": (Map(Integer()), {"1": 2}),
    "Record": (Inner(), Inner(id=1, name=None)),
    "ArrayOfRecord": (Array(Inner()), [Inner(id=1, name="n")]),
    "Null": (Integer(), None),
    "Required": (Integer(required=True), 5),
    "Empty": (Empty(), Empty()),
}


def of_python() -> Iterator[dict[str, Any]]:
    for name, (field, value) in PYTHON.items():
        record = type("R", (Record,), {"v": field})
        payload = JsonSchema(record).encode(record(v=value))
        yield {"client": "Python", "case": name, "payload": payload.decode(), "definition": record.schema()}


def of_java() -> Iterator[dict[str, Any]]:
    for case in _lines("java", "-cp", class_path(), str(HERE / "JsonRecording.java")):
        if "payload" in case and (case["jsr310"] or case["case"] == "Instant"):
            definition = json.loads(case["definition"])
            yield {"client": "Java", "case": case["case"], "payload": case["payload"], "definition": definition}


def of_go() -> Iterator[dict[str, Any]]:
    for case in _lines("go", "run", "json_recording.go"):
        yield {"client": "Go", **case}


def _lines(*command: str) -> Iterator[dict[str, Any]]:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    done = subprocess.run(command, cwd=HERE / "go", env=environment, check=True, capture_output=True)
    for line in done.stdout.splitlines():
        yield json.loads(line)


def main() -> None:
    """Writes the file anew."""
    known = {(each["client"], each["case"], each["payload"]): each for each in json.loads(RECORDED.read_text())}
    lines = []
    for case in (*of_java(), *of_python(), *of_go()):
        found = known.get((case["client"], case["case"], case["payload"]), {})
        lines.append(json.dumps({**case, "expected": found.get("expected", "?")}))
    RECORDED.write_text("[\n" + ",\n".join(dict.fromkeys(lines)) + "\n]\n")


if __name__ == "__main__":
    main()
