"""Avro's schema resolution: determines whether data written with one schema can be read with another, as Avro for Java
does in Apache Pulsar's registry (SC-5). Which of two is to read the other, `compatibility` knows (SC-4).

The rules are those of the specification ("Schema Resolution") with the three liberties that Avro for Java takes, so
that this registry accepts what Apache Pulsar accepts: records need not have the same name, unless the reader chooses
among several in a union; an enum may lose symbols, since only data that holds one of them cannot be read; a writer's
union fits only when each of its branches does. (The `avro` package for Python is stricter in the first two.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from spark_pulsar.model.avro import NO_DEFAULT, PRIMITIVES, AvroField, AvroType

PROMOTIONS: Final[Mapping[str, frozenset[str]]] = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
"""Types that a primitive may be read as, beside itself."""

MAX_STEPS: Final = 1_000_000
"""Types, fields, aliases and branches that one comparison may visit. Short texts can require much more: where two
unions of records meet, each record is compared with each. A record of 100,000 fields takes a third of it."""


class TooMuchToCompare(ValueError):
    """Error of two schemas that cannot be compared within `MAX_STEPS`."""


def can_read(reader: AvroType, writer: AvroType) -> bool:
    """Returns whether everything written with `writer` has a meaning for `reader` (enum symbols aside, see above).
    TooMuchToCompare when the comparison takes too long."""
    return _Resolution().fits(reader, writer)


class _Resolution:
    """One comparison. Pairs of records whose comparison is under way count as fitting, so that recursive types end."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}
        self._fitting: list[tuple[int, int]] = []
        """Pairs that are known to fit, in the order in which they were first compared."""
        self._steps_left = MAX_STEPS

    def _count(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise TooMuchToCompare("too much to compare")

    def fits(self, reader: AvroType, writer: AvroType) -> bool:
        self._count(1)
        if writer.kind == "union":
            return all(self.fits(reader, branch) for branch in writer.branches)
        if reader.kind == "union":
            chosen = self._branch(reader.branches, writer)
            return chosen is not None and self.fits(chosen, writer)
        if reader.kind != writer.kind:
            return reader.kind in PROMOTIONS.get(writer.kind, ())
        if reader.kind in PRIMITIVES:
            return True
        if reader.kind in ("array", "map"):
            assert reader.items is not None, "an array or map has items"
            assert writer.items is not None, "an array or map has items"
            return self.fits(reader.items, writer.items)
        if reader.kind == "record":
            return self._records(reader, writer)
        return _same_name(reader, writer) and (reader.kind == "enum" or reader.size_bytes == writer.size_bytes)

    def _records(self, reader: AvroType, writer: AvroType) -> bool:
        pair = (id(reader), id(writer))
        known = self._known.get(pair)
        if known is not None:
            return known
        self._count(len(writer.fields) + len(reader.fields) + sum(len(field.aliases) for field in reader.fields))
        before = len(self._fitting)
        self._known[pair] = True
        self._fitting.append(pair)
        written = {field.name: field for field in writer.fields}
        for field in reader.fields:
            source = _written_as(field, written)
            if (field.default is NO_DEFAULT) if source is None else not self.fits(field.type, source.type):
                break
        else:
            return True
        # Pairs that were found to fit meanwhile may have relied on this one.
        for fitting in self._fitting[before:]:
            del self._known[fitting]
        del self._fitting[before:]
        self._known[pair] = False
        return False

    def _branch(self, branches: list[AvroType], writer: AvroType) -> AvroType | None:
        """Finds the branch of a reader's union that a type is read with: one of its kind (and name), for a record else
        one whose fields fit, at last one that the type can be promoted to."""
        self._count(len(branches))
        alike = [branch for branch in branches if branch.kind == writer.kind]
        named = [branch for branch in alike if not branch.name or _same_name(branch, writer)]
        if named:
            return named[0]
        if writer.kind == "record":
            fitting = [branch for branch in alike if self._records(branch, writer)]
            same_short = [branch for branch in fitting if branch.short_name == writer.short_name]
            return next(iter(same_short or fitting), None)
        wider = PROMOTIONS.get(writer.kind, ())
        return next((branch for branch in branches if branch.kind in wider), None)


def _same_name(reader: AvroType, writer: AvroType) -> bool:
    return writer.name == reader.name or writer.name in reader.aliases


def _written_as(wanted: AvroField, written: Mapping[str, AvroField]) -> AvroField | None:
    """Finds the writer's field for a reader's field, by its name or one of its aliases."""
    field = written.get(wanted.name)
    if field is None and wanted.aliases:
        field = next((written[alias] for alias in sorted(wanted.aliases) if alias in written), None)
    return field
