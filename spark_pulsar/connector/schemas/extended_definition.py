"""Extension of a topic's definition by what rows have beyond it, with the topic's own names and attributes (SCHEMA-6).

Fields that both have keep the topic's type wherever it takes the rows' values: names, aliases, defaults, docs, logical
types, order and nullability stay. Fields that only the topic has stay too, if a default or null fills them; fields that
only the rows have come behind them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Container
from typing import Any, Final

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.linked_definition import (
    FULL_NAME,
    attribute,
    kind_of,
    linked,
    names_in,
    unlinked,
    without_null,
)

TOP_LEVEL_RECORD: Final = "topLevelRecord"
"""Name of the record of a row, Spark's own."""

_TAKES: Final = {
    "int": ("int", "long", "double"),
    "long": ("long",),
    "float": ("float", "double"),
    "double": ("double",),
    "boolean": ("boolean",),
    "string": ("string", "enum"),
    "bytes": ("bytes", "fixed"),
}
"""Kinds of the topic that take every value of a kind of rows; text only by its values, bytes by their length."""
_READ_AS: Final = {"int": ("long", "float", "double"), "long": ("float", "double"), "float": ("double",)}
_MEANINGS: Final = {
    ("int", "date"): "date",
    ("int", "time-millis"): "time",
    ("long", "time-micros"): "time",
    **{("long", f"timestamp-{unit}"): "timestamp" for unit in ("millis", "micros", "nanos")},
    **{("long", f"local-timestamp-{unit}"): "timestamp" for unit in ("millis", "micros", "nanos")},
}
_MEMBER: Final = re.compile(r"member(\d+)")
_MOST_SHOWN: Final = 12


class MissingFields(SchemaError):
    """Error of a frame without columns that the topic's definition wants."""


def extended(topic: Any, rows: Any, path: str = "") -> tuple[Any, bool]:
    """Returns the topic's definition with what the rows' has beyond it, and whether they differ. Both are parsed JSON.

    Raises MissingFields, with their names behind `path`, where the topic has fields that nothing fills.
    """
    extension = _Extension(linked(topic))
    merged = unlinked(extension.type_of(extension.root, linked(rows), path.removesuffix(".")))
    if extension.missing:
        shown = [*extension.missing[:_MOST_SHOWN]]
        if len(extension.missing) > _MOST_SHOWN:
            shown.append(f"and {len(extension.missing) - _MOST_SHOWN} more")
        raise MissingFields("; ".join(shown))
    return merged, extension.has_changed


def fits(topic: Any, rows: Any) -> bool:
    """Returns whether rows with the definition `rows` can be written as that of the topic says (both parsed JSON): it
    takes the type of each column, and fills the fields that are none."""
    return _fits(linked(topic), linked(rows))


def branch_of(branches: list[Any], rows: Any) -> int | None:
    """Returns the first branch of a union that takes a (linked) type of rows, one of the same kind before others."""
    fitting = [index for index, branch in enumerate(branches) if _fits(branch, rows)]
    alike = [index for index in fitting if kind_of(branches[index]) == kind_of(rows)]
    return next(iter(alike or fitting), None)


def members_of(names: list[str], branch_count: int) -> list[int] | None:
    """Returns the branches of a union that the fields of a struct stand for, `member0` and so on, counted without null;
    None for a struct of other fields."""
    matches = [_MEMBER.fullmatch(name) for name in names]
    numbers = [int(match[1]) for match in matches if match is not None]
    return numbers if numbers and len(numbers) == len(names) and max(numbers) < branch_count else None


def decimal_digits(linked_type: Any) -> tuple[int, int] | None:
    """Returns precision and scale of a decimal; None for another type."""
    if attribute(linked_type, "logicalType") != "decimal" or kind_of(linked_type) not in ("bytes", "fixed"):
        return None
    precision, scale = linked_type.get("precision"), linked_type.get("scale", 0)
    return (precision, scale) if isinstance(precision, int) and isinstance(scale, int) else None


def column_of(field: Any, columns: Container[str], record: Any) -> str | None:
    """Returns the column of a field of a record: that of its name, else of an alias that no other field is called."""
    own = {record_field["name"] for record_field in record["fields"]}
    names = (field["name"], *(alias for alias in field.get("aliases", ()) if alias not in own))
    return next((name for name in names if name in columns), None)


def is_filled(field: Any) -> bool:
    """Returns whether a field of a definition has a value where rows have none."""
    return "default" in field or without_null(field["type"])[1] or kind_of(field["type"]) == "null"


def _fits(topic: Any, rows: Any) -> bool:
    extension = _Extension(copy.deepcopy(topic))
    extension.type_of(extension.root, rows, "")
    return not extension.has_changed and not extension.missing


def _meaning(linked_type: Any) -> str:
    return _MEANINGS.get((kind_of(linked_type), str(attribute(linked_type, "logicalType"))), "")


def takes(topic: Any, rows: Any) -> bool:
    """Returns whether a type without parts takes the values of another."""
    wide, narrow = decimal_digits(topic), decimal_digits(rows)
    if wide and narrow:
        return narrow[1] <= wide[1] and narrow[0] - narrow[1] <= wide[0] - wide[1]
    if wide or narrow:
        return False
    one, other = _meaning(topic), _meaning(rows)
    if one or other:
        return one == other
    return kind_of(topic) in _TAKES.get(kind_of(rows), ())


class _Extension:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.has_changed = False
        self.missing: list[str] = []
        self._names = names_in(root)

    def type_of(self, topic: Any, rows: Any, path: str) -> Any:
        branches, topic_null = without_null(topic)
        (wanted, *_), rows_null = without_null(rows)
        if len(branches) > 1:
            return topic if self._is_of_union(branches, wanted) else self._replaced(rows, topic_null or rows_null)
        if not branches:
            return self._replaced(wanted, True)
        merged = self._one(branches[0], wanted, path)
        if merged is branches[0]:
            return topic
        if _is_promoted(branches[0], merged):
            self.has_changed = True
            return (
                [merged if branch is branches[0] else branch for branch in topic] if isinstance(topic, list) else merged
            )
        return self._replaced(merged, topic_null or rows_null)

    def _replaced(self, rows: Any, is_nullable: bool) -> Any:
        """Returns the type of the rows, where the topic's cannot be kept: whether that may be is for the broker."""
        self.has_changed = True
        (wanted, *_), _ = without_null(rows)
        return ["null", wanted] if is_nullable else wanted

    def _is_of_union(self, branches: list[Any], wanted: Any) -> bool:
        if kind_of(wanted) == "record":
            numbers = members_of([field["name"] for field in wanted["fields"]], len(branches))
            if numbers is not None:
                types = [without_null(field["type"])[0][0] for field in wanted["fields"]]
                return all(_fits(branches[number], row_type) for number, row_type in zip(numbers, types, strict=True))
        return branch_of(branches, wanted) is not None

    def _one(self, topic: Any, rows: Any, path: str) -> Any:
        kind = kind_of(topic)
        if kind != kind_of(rows) or kind not in ("record", "array", "map"):
            return topic if takes(topic, rows) else rows
        if kind == "record":
            self._record(topic, rows, path)
        else:
            member = "items" if kind == "array" else "values"
            topic[member] = self.type_of(topic[member], rows[member], f"{path}[]")
        return topic

    def _record(self, topic: Any, rows: Any, path: str) -> None:
        prefix = f"{path}." if path else ""
        columns = {field["name"]: field for field in rows["fields"]}
        for field in topic["fields"]:
            name = column_of(field, columns, topic)
            column = None if name is None else columns.pop(name)
            if column is None:
                if not is_filled(field):
                    self.missing.append(f"{prefix}{field['name']} ({_shown(field['type'])}, no default)")
                continue
            before = field["type"]
            after = field["type"] = self.type_of(before, column["type"], f"{prefix}{field['name']}")
            if after is not before and not _is_promoted(before, after):
                field.pop("default", None)  # of another type
                if isinstance(after, list):
                    field["default"] = None
        for column in columns.values():
            self.has_changed = True
            topic["fields"].append({**column, "type": self._renamed(column["type"])})

    def _renamed(self, rows: Any) -> Any:
        """Gives the records of new fields names of their own, below that of the topic's record."""
        if isinstance(rows, list):
            return [self._renamed(branch) for branch in rows]
        if not isinstance(rows, dict):
            return rows
        renamed = dict(rows)
        for member in ("items", "values"):
            if member in renamed:
                renamed[member] = self._renamed(renamed[member])
        if "fields" in renamed:
            own = renamed.get("namespace", TOP_LEVEL_RECORD).removeprefix(TOP_LEVEL_RECORD)
            root = attribute(self.root, FULL_NAME) or TOP_LEVEL_RECORD
            namespace, name = f"{root}{own}", renamed["name"]
            while f"{namespace}.{name}" in self._names:
                name += "_"
            self._names.add(f"{namespace}.{name}")
            renamed |= {"name": name, "namespace": namespace, FULL_NAME: f"{namespace}.{name}"}
            renamed["fields"] = [{**field, "type": self._renamed(field["type"])} for field in renamed["fields"]]
        return renamed


def _is_promoted(before: Any, after: Any) -> bool:
    """Returns whether Avro reads a type as another, union or not."""
    one, other = without_null(before)[0], without_null(after)[0]
    return len(one) == len(other) == 1 and kind_of(other[0]) in _READ_AS.get(kind_of(one[0]), ())


def _shown(linked_type: Any) -> str:
    logical = attribute(linked_type, "logicalType")
    return f"{kind_of(linked_type)} ({logical})" if logical else kind_of(linked_type)
