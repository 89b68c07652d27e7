"""Columns of a read: the checks of its schema, and the form of each record batch for it (SCHEMA-1). Schemas are Spark
`StructType`s, used here by their public face only, so that this module needs no pyspark.

The read columns are those of StreamNative's JVM connector: `value`, or what the topic's schema has in its place (see
`schemas`), then those of the metadata. `.schema(...)` on the reader picks some of them, in any order, and is passed
down to the kernels, so columns that are not requested are not decoded; `value` and `__key` may be requested as
`string`, which then must be valid UTF-8. More metadata comes where `metadataColumns` or that schema names it (READ-12).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.connector.columns import (
    METADATA_COLUMNS,
    NOT_THERE,
    ON_REQUEST,
    READ_COLUMNS,
    Column,
    fields_of,
    near_names,
    no_doubles,
)
from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.decode_mode import FAIL, JSON, DecodeMode
from spark_pulsar.connector.schemas.decoding.plan import Decoding

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_pulsar.connector.schemas.definition import Definition

FAILING: Final = DecodeMode()


READ_DDL: Final = ", ".join(f"{column.name} {column.types[0]}" for column in READ_COLUMNS)
"""The schema of a read when the user gives none."""

_READ: Final = {column.name: column for column in READ_COLUMNS + METADATA_COLUMNS}


@dataclass(frozen=True, slots=True)
class Projection:
    """Columns of one read in order, which of them are wanted as text, which must not hold nulls."""

    names: tuple[str, ...]
    as_string: frozenset[str] = frozenset()
    not_null: frozenset[str] = frozenset()
    decoding: Decoding | None = None
    """Columns that are decoded by the topic's schema; None when none is."""
    times_as_text: bool = False
    """True where columns have times of a day, which are wanted as text."""

    @property
    def read_names(self) -> tuple[str, ...]:
        """Columns that the kernels must make for `fit`, or for the decoding before it."""
        return self.names if self.decoding is None else self.decoding.needed(self.names)

    def fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`batch`, whose columns are the ones named, all nullable, in exactly the schema Spark expects.

        Raises SchemaError for text that is no UTF-8 and for a null where the user's schema allows none.
        """
        if not self.as_string and not self.not_null and not self.times_as_text:
            return batch
        import pyarrow as pa

        fields, arrays = [], []
        for name in self.names:
            array = batch.column(name)
            if name in self.as_string:
                try:
                    array = array.cast(pa.string())
                except pa.ArrowInvalid as error:
                    raise SchemaError(
                        f"column {name} was requested as string but holds bytes that are no UTF-8; read it as binary"
                    ) from error
            if self.times_as_text:
                array = _with_times_as_text(array)
            if name in self.not_null and array.null_count:
                raise SchemaError(f"column {name} was declared NOT NULL, but a message without it was read")
            fields.append(pa.field(name, array.type, name not in self.not_null))
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _with_times_as_text(array: pa.Array) -> pa.Array:
    """Returns an array with text, `03:24:00.123456`, in place of times of a day, in its fields and items, too."""
    import pyarrow as pa

    from spark_pulsar.connector.schemas.types.arrow_types import with_times_as

    text = with_times_as(array.type, pa.string())
    if text == array.type:
        return array
    return array.cast(with_times_as(array.type, pa.time64("us")), safe=False).cast(text)


def projection_of(
    schema: Any, definition: Definition | None = None, mode: DecodeMode = FAILING, metadata: Sequence[str] = ()
) -> Projection:
    """Checks the schema of a read (the default one, or the user's) against the columns that `definition`, the schema of
    the topic, gives, and the option `metadataColumns` against it. Raises SchemaError naming the nearest column, or
    listing all."""
    fields = fields_of(schema)
    if not fields:
        raise SchemaError("the schema of .schema(...) names no column: name one, or leave .schema out")
    names = [name for name, _, _ in fields]
    no_doubles(names)
    if missing := [name for name in metadata if name not in names]:
        raise SchemaError(
            f"metadataColumns names {' and '.join(missing)}, and the schema of the read does not: add it there, or "
            "leave the option out"
        )
    _check_has_fields(definition, mode)
    if definition is not None or mode.columns() or mode.dead_letter_topic:
        return _decoded_projection(schema, definition, mode)
    for name, kind, _ in fields:
        _check_plain(name, kind, _READ)
    return Projection(
        names=tuple(name for name, _, _ in fields),
        as_string=frozenset(name for name, kind, _ in fields if kind == "string" and name in ("value", "__key")),
        not_null=frozenset(name for name, _, nullable in fields if not nullable),
    )


def _check_has_fields(definition: Definition | None, mode: DecodeMode) -> None:
    if mode.minds_new_fields:
        from spark_pulsar.connector.schemas.decoding.evolution import check_has_fields

        check_has_fields(definition, mode)


def is_plain(schema: Any) -> bool:
    """Returns whether a schema names columns of a topic without schema alone: metadata, and `value` as bytes or
    text."""
    return all(name in _READ and kind in _READ[name].types for name, kind, _ in fields_of(schema))


def ltz_hint(kind: str) -> str:
    """Returns what to do where DDL says `timestamp` and the session makes a type without time zone of it."""
    return ", and where spark.sql.timestampType is TIMESTAMP_NTZ write timestamp_ltz" * (kind == "timestamp_ntz")


def _check_plain(name: str, kind: str, known: Mapping[str, Column]) -> None:
    if name in NOT_THERE:
        raise SchemaError(f"there is no column {name}: {NOT_THERE[name]}")
    if name not in known:
        raise SchemaError(f"no column {name} can be read{near_names(name, known)}; there are {', '.join(known)}")
    if kind not in known[name].types:
        raise SchemaError(
            f"column {name} is {' or '.join(known[name].types)}, it cannot be read as {kind}; cast it afterwards"
            f"{ltz_hint(kind)}"
        )


def _decoded_projection(schema: Any, definition: Definition | None, mode: DecodeMode) -> Projection:
    """Checks the schema of a read of a topic with a schema: `value` is the raw payload where it is requested as bytes
    and the topic's schema has no such column."""
    import pyarrow as pa

    from spark_pulsar.connector.schemas.types.arrow_types import with_odd_as, with_times_as
    from spark_pulsar.connector.schemas.types.spark_types import requested_type

    there = _columns_there(schema, definition, mode)
    _check_rescued(schema, there, mode)
    plain = {name: column for name, column in _READ.items() if name not in there}
    plain |= {name: Column(name, (kind,)) for name, kind in mode.columns()}
    known = dict.fromkeys([*there, *plain])
    wanted, as_string = [], []
    for field in schema.fields:
        name, kind = field.name, field.dataType.simpleString()
        if name not in known:
            of = "no schema" if definition is None else f"the schema {definition.type.name}"
            near = near_names(name, known)
            raise SchemaError(f"no column {name} can be read{near}; the topic has {of}, there are {', '.join(known)}")
        if name in plain:
            _check_plain(name, kind, plain)
            if kind == "string" and name in ("value", "__key"):
                as_string.append(name)
        elif name != "value" or kind != "binary" or there[name] == pa.binary():
            kind = requested_type(field.dataType, there[name], name, times_as_text=mode.times_as_text)
            wanted.append((name, kind))
    if not wanted and (mode.mode != FAILING.mode or mode.minds_new_fields):
        # which rows decode, and what they have besides, decides about the others
        wanted = [(name, with_odd_as(kind, pa.string())) for name, kind in there.items()]
    return Projection(
        names=tuple(field.name for field in schema.fields),
        as_string=frozenset(as_string),
        not_null=frozenset(field.name for field in schema.fields if not field.nullable),
        decoding=Decoding(definition, tuple(wanted), mode),
        times_as_text=mode.times_as_text and any(with_times_as(kind, pa.string()) != kind for _, kind in wanted),
    )


def _check_rescued(schema: Any, there: Mapping[str, Any], mode: DecodeMode) -> None:
    """Refuses a schema without the column that is to have rescued data, and topics with a field of that name."""
    name = mode.rescued_data
    if name in there:
        raise SchemaError(f"the topic's schema has a field {name}: give the option rescuedDataColumn another name")
    if name is not None and name not in {field.name for field in schema.fields}:
        raise SchemaError(
            f"rescued data has the column {name}, and the schema of the read does not: add `{name} string` there, or "
            "leave schemaEvolutionMode and rescuedDataColumn out"
        )


def _columns_there(schema: Any, definition: Definition | None, mode: DecodeMode) -> dict[str, Any]:
    """Returns the Arrow types of the columns that the topic's schema gives, by name; none of a schema that cannot be
    read where no column of it is requested."""
    from spark_pulsar.connector.schemas.types.columns import value_columns

    if definition is None:
        return {}
    try:
        return {column.name: column.type for column in value_columns(definition)}
    except SchemaError:
        raw = {name for name, _ in mode.columns()} | set(_READ)
        if all(name in raw and (name != "value" or kind == "binary") for name, kind, _ in fields_of(schema)):
            return {}
        raise


def read_schema(
    definition: Definition | None, mode: DecodeMode = FAILING, metadata: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the schema of a read when the user gives none, of topics with this schema, as in
    `StructType.jsonValue()`: text of DDL would mean what settings of the session make of it. `metadata` names columns
    of METADATA_COLUMNS."""
    from spark_pulsar.connector.schemas.types.columns import value_columns
    from spark_pulsar.connector.schemas.types.spark_types import json_field

    _check_has_fields(definition, mode)
    there = _without_odd(value_columns(definition), mode.unsupported_fields)
    if mode.rescued_data in there.names:
        raise SchemaError(
            f"the topic's schema has a field {mode.rescued_data}: give the option rescuedDataColumn another name"
        )
    added = list(mode.columns())
    added += [(column.name, column.types[0]) for column in READ_COLUMNS[1:]]
    added += [(name, ON_REQUEST[name].types[0]) for name in metadata]
    for name, _ in added:
        if name in there.names:
            raise SchemaError(
                f"the topic's schema has a field {name}, which is a column of the connector; set useTopicSchema to "
                "false to read value as bytes"
            )
    if mode.times_as_text:
        there = _with_text_types(there)
    columns = [json_field(column.name, column.type) for column in there] + [json_field(*column) for column in added]
    return {"type": "struct", "fields": columns}


def _with_text_types(columns: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    from spark_pulsar.connector.schemas.types.arrow_types import with_times_as

    return pa.schema([column.with_type(with_times_as(column.type, pa.string())) for column in columns])


def _without_odd(columns: pa.Schema, unsupported_fields: str) -> pa.Schema:
    import pyarrow as pa

    from spark_pulsar.connector.schemas.types.arrow_types import with_odd_as

    if unsupported_fields == FAIL:
        return columns
    plain = pa.string() if unsupported_fields == JSON else pa.binary()
    return pa.schema([column.with_type(with_odd_as(column.type, plain)) for column in columns])
