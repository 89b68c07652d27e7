"""Evolution of a topic's schema under a read: columns that messages have and the schema of the read lacks (SCHEMA-20),
which may be rescued (SCHEMA-21). Versions are decoded one by one in any case (SCHEMA-17: `decoding.messages`).

A column is new when the topic's newest schema has it and the schema of the read does not: a query that is started again
has it. What an older version had, and what no version has, is not new by that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_pulsar.connector.errors import NewColumnsError, SchemaError
from spark_pulsar.connector.options.decode_mode import ADD_NEW_COLUMNS, FAIL_ON_NEW_COLUMNS, NO_EVOLUTION, DecodeMode
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.types.arrow_types import with_odd_as
from spark_pulsar.connector.schemas.types.columns import has_fields, value_columns
from spark_pulsar.connector.schemas.types.spark_types import spark_name

_MOST_NAMED = 100


@dataclass(frozen=True, slots=True)
class Evolution:
    """Way of what the schema of the read lacks, for the messages of one topic."""

    topic: str
    mode: str
    rescues: bool
    """Fields that do not fit are kept."""
    newest: Callable[[], Definition | None]
    """Returns the newest schema of the topic."""

    @staticmethod
    def of(mode: DecodeMode, topic: str, newest: Callable[[], Definition | None]) -> Evolution | None:
        """Returns the evolution of a read; None where new fields are left out."""
        if not mode.minds_new_fields:
            return None
        return Evolution(topic, mode.schema_evolution, mode.rescued_data is not None, newest)

    @property
    def refuses_undeclared(self) -> bool:
        """Returns whether a field that no version of the schema has ends the query, too."""
        return self.mode == FAIL_ON_NEW_COLUMNS

    def check_version(self, reader: Definition, writer: Definition | None, wanted: pa.Schema) -> None:
        """Checks that a version of the topic's schema has no columns that are new to a read. Raises NewColumnsError."""
        if self.mode not in (ADD_NEW_COLUMNS, FAIL_ON_NEW_COLUMNS) or writer is None or writer.type is not reader.type:
            return
        known = set(wanted.names)
        of_version = added_columns(writer, reader, known)
        if not of_version:
            return
        newest = self.newest()
        new = of_version if newest is None else added_columns(newest, reader, known)
        if of_version.keys() & new.keys():
            read = f", planned with version {_number(reader)}," if reader.version else ""
            what = f"messages of schema version {_number(writer)} have columns that this read{read} lacks"
            again = "start the query again (a batch read: call load() again), it then has them"
            self._refuse(what, new, again)

    def refuse_undeclared(self, columns: Mapping[str, str]) -> None:
        """Refuses fields that no version of the schema has, if they end the query. Raises NewColumnsError."""
        if columns and self.refuses_undeclared:
            again = "start the query again when a version of the topic's schema has them"
            self._refuse("messages have fields that no version of the schema has", columns, again)

    def _refuse(self, what: str, columns: Mapping[str, str], again: str) -> None:
        shown = [f"{path} {kind}" for path, kind in list(columns.items())[:_MOST_NAMED]]
        if len(columns) > _MOST_NAMED:
            shown.append(f"and {len(columns) - _MOST_NAMED} more")
        if self.mode == FAIL_ON_NEW_COLUMNS:
            again += ", or set schemaEvolutionMode to rescue, which keeps them in a column"
        raise NewColumnsError(f"{self.topic}: {what}: {', '.join(shown)} (schemaEvolutionMode {self.mode}): {again}")


def check_has_fields(definition: Definition | None, mode: DecodeMode) -> None:
    """Refuses options about new fields where the schema of the topics names none. Raises SchemaError."""
    if not mode.minds_new_fields or (definition is not None and has_fields(definition)):
        return
    option = "rescuedDataColumn" if mode.schema_evolution == NO_EVOLUTION else "schemaEvolutionMode"
    there = "have no schema, or none in common" if definition is None else f"have the schema {definition.type.name}"
    raise SchemaError(
        f"option {option} needs topics whose schema has fields (AVRO, JSON, PROTOBUF_NATIVE, KEY_VALUE of these), and "
        f"the topics {there}: leave the option out"
    )


def added_columns(definition: Definition, reader: Definition, wanted: Collection[str] | None = None) -> dict[str, str]:
    """Returns the columns, and the fields inside of wanted ones (None: of all), that a definition has and the reader's
    lacks: Spark types by path."""
    try:
        there, known = pa.struct(list(value_columns(definition))), pa.struct(list(value_columns(reader)))
    except SchemaError:
        return {}
    added: dict[str, str] = {}
    left_out = set() if wanted is None else {column.name for column in known} - set(wanted)
    _compare(pa.struct([column for column in there if column.name not in left_out]), known, "", added)
    return added


def _compare(there: Any, known: Any, path: str, added: dict[str, str]) -> None:
    if pa.types.is_struct(there) and pa.types.is_struct(known):
        types = {field.name: field.type for field in known}
        for field in there:
            place = f"{path}.{field.name}".lstrip(".")
            if field.name in types:
                _compare(field.type, types[field.name], place, added)
            else:
                added[place] = spark_name(with_odd_as(field.type, pa.string()))
    elif pa.types.is_list(there) and pa.types.is_list(known):
        _compare(there.value_type, known.value_type, f"{path}[]", added)
    elif pa.types.is_map(there) and pa.types.is_map(known):
        _compare(there.item_type, known.item_type, f"{path}[]", added)


def _number(definition: Definition) -> int:
    return int.from_bytes(definition.version, "big", signed=True)
