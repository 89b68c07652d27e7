"""Avro schemas and values made up by a random generator, and newer versions of them."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

Schema = Any
_LEAVES = ("boolean", "int", "long", "float", "double", "bytes", "string")
_WIDER = {"int": ("long", "double", "float"), "long": ("double", "float"), "float": ("double",)}
_WIDER |= {"bytes": ("string",), "string": ("bytes",)}
_TEXTS = ("", "a", "key", "日本é", "x" * 70)
_DEFAULTS = {"boolean": True, "int": 7, "long": -7, "float": 0.5, "double": 1.5, "bytes": "\u00ff", "string": "né"}


class Made:
    """A generator of schemas whose names are all different."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._names = 0

    def name(self) -> str:
        self._names += 1
        return f"N{self._names}"

    def leaf(self) -> Schema:
        kind = self.random.randrange(10)
        if kind == 0:
            return {"type": "fixed", "name": self.name(), "size": self.random.randrange(4)}
        if kind == 1:
            count = self.random.randrange(1, 4)
            return {"type": "enum", "name": self.name(), "symbols": [f"S{i}" for i in range(count)]}
        return self.random.choice(_LEAVES)

    def type(self, depth: int) -> Schema:
        kind = self.random.randrange(10)
        if depth == 0 or kind < 3:
            return self.leaf()
        if kind < 5:
            inner = self.type(depth - 1)
            return inner if isinstance(inner, list) else self.random.choice([["null", inner], [inner, "null"]])
        if kind == 5:
            return {"type": "array", "items": self.type(depth - 1)}
        if kind == 6:
            return {"type": "map", "values": self.type(depth - 1)}
        if kind == 7:
            return self.union(depth)
        return self.record(depth - 1)

    def union(self, depth: int) -> Schema:
        """A union of branches that can be told apart by their Python types."""
        branches = [
            self.random.choice(["int", "long"]),
            self.random.choice(["string", "boolean"]),
            self.random.choice(["float", "double"]),
            {"type": "array", "items": self.type(depth - 1)},
            self.record(depth - 1),
            "null",
        ]
        return self.random.sample(branches, self.random.randrange(2, 5))

    def record(self, depth: int) -> Schema:
        fields = [{"name": f"f{i}", "type": self.type(depth)} for i in range(self.random.randrange(1, 5))]
        return {"type": "record", "name": self.name(), "fields": fields}

    def newer(self, schema: Schema) -> Schema:
        """A schema that reads what was written with `schema`, most of the time."""
        return self._newer(copy.deepcopy(schema))

    def _newer(self, schema: Schema) -> Schema:
        random = self.random
        if isinstance(schema, str):
            return random.choice([schema, schema, schema, *_WIDER.get(schema, ())])
        if isinstance(schema, list):
            branches = [self._newer(each) for each in schema]
            if any(isinstance(each, list) for each in branches):
                return schema
            names = [each if isinstance(each, str) else each["type"] for each in branches]
            return schema if len(set(names)) < len(names) or random.random() < 0.5 else branches
        if schema["type"] == "enum" and random.random() < 0.5:
            schema["symbols"] = [f"S{i}" for i in reversed(range(random.randrange(1, 5)))]
            if random.random() < 0.5:
                schema["default"] = schema["symbols"][0]
        elif schema["type"] == "array":
            schema["items"] = self._newer(schema["items"])
        elif schema["type"] == "map":
            schema["values"] = self._newer(schema["values"])
        elif schema["type"] == "record":
            fields = [{**each, "type": self._newer(each["type"])} for each in schema["fields"]]
            if len(fields) > 1 and random.random() < 0.3:
                del fields[random.randrange(len(fields))]
            if random.random() < 0.3:
                random.shuffle(fields)
            if random.random() < 0.3:
                renamed = random.choice(fields)
                renamed["aliases"] = [renamed["name"]]
                renamed["name"] = f"renamed_{renamed['name']}"
            if random.random() < 0.4:
                fields.append(self._added())
            schema["fields"] = fields
        if random.random() < 0.1 and schema["type"] not in ("array", "map"):
            return ["null", schema]
        return schema

    def _added(self) -> dict[str, Any]:
        kind = self.random.choice(_LEAVES)
        choices: list[tuple[Schema, Any]] = [
            (kind, _DEFAULTS[kind]),
            (["null", kind], None),
            ([kind, "null"], _DEFAULTS[kind]),
            ({"type": "array", "items": kind}, [_DEFAULTS[kind]]),
            ({"type": "map", "values": kind}, {}),
        ]
        added, default = self.random.choice(choices)
        return {"name": f"added{self.random.randrange(3)}", "type": added, "default": default}

    def value(self, schema: Schema) -> Any:
        """A value of a schema."""
        random = self.random
        if isinstance(schema, list):
            branch = random.choice(schema)
            value = self.value(branch)
            return (branch["name"], value) if isinstance(branch, dict) and branch["type"] == "record" else value
        kind = schema if isinstance(schema, str) else schema["type"]
        if kind == "record":
            return {each["name"]: self.value(each["type"]) for each in schema["fields"]}
        if kind == "array":
            return [self.value(schema["items"]) for _ in range(random.choice([0, 0, 1, 2, 5]))]
        if kind == "map":
            return {random.choice(_TEXTS): self.value(schema["values"]) for _ in range(random.choice([0, 1, 3]))}
        if kind == "fixed":
            return random.randbytes(schema["size"])
        if kind == "enum":
            return random.choice(schema["symbols"])
        if kind in ("int", "long"):
            bits = random.choice([1, 6, 7, 14, 31 if kind == "int" else 63])
            return random.randrange(-(2**bits), 2**bits)
        if kind in ("float", "double"):
            return random.choice([0.0, -1.5, 2.0**-20, 1e30, float("inf")])
        values = {"null": None, "boolean": random.random() < 0.5, "string": random.choice(_TEXTS)}
        return values[kind] if kind in values else random.randbytes(random.randrange(5))


def torn(random: Random, payload: bytes) -> bytes:
    """A payload that was damaged in some way."""
    data = bytearray(payload)
    kind = random.randrange(5)
    if kind == 0 or not data:
        return random.randbytes(random.randrange(24))
    if kind == 1:
        return bytes(data[: random.randrange(len(data))])
    if kind == 2:
        return bytes(data) + random.randbytes(random.randrange(1, 3))
    place = random.randrange(len(data))
    if kind == 3:
        data[place] = random.choice([0, 1, 2, 127, 128, 255, random.randrange(256)])
        return bytes(data)
    huge = [b"\xff" * 9 + b"\x01", b"\xff" * 10, b"\xfe\xff\xff\xff\x0f", b"\x80" * 8 + b"\x10", b"\x01\x80\x80\x04"]
    return bytes(data[:place]) + random.choice(huge) + bytes(data[place:])
