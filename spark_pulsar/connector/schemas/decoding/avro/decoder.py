"""Payloads of AVRO schemas: decoded with the schema that they were written with, resolved to the reader's."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.decoding.avro.bounds import EmptyItemsBound, check_values, has_empty_items
from spark_pulsar.connector.schemas.decoding.avro.column_plan import ColumnPlan
from spark_pulsar.connector.schemas.decoding.avro.defaults import set_defaults
from spark_pulsar.connector.schemas.decoding.avro.depth import is_deep
from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload
from spark_pulsar.connector.schemas.payloads.record_types import RecordType
from spark_pulsar.connector.schemas.types.arrow_types import RAW
from spark_pulsar.model.extras import require

require("decoding AVRO messages", "fastavro")
import fastavro  # noqa: E402
import fastavro._read_py  # noqa: E402

if TYPE_CHECKING:
    from spark_pulsar.connector.schemas.definition import Definition

Value = Callable[[Any], Any]

_PYTHON_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (float,),
    "double": (float,),
    "bytes": (bytes,),
    "fixed": (bytes,),
    "string": (str,),
    "enum": (str,),
    "array": (list,),
    "map": (dict,),
    "record": (dict, tuple),
}


class AvroDecoder:
    """Payloads of one writer's schema.

    Fields that the reader has and the writer lacks have the default of the reader's definition, or are null; fields
    that only the writer has are skipped.
    """

    def __init__(self, reader: Definition, writer: Definition, wanted: Any) -> None:
        avro = reader.avro()
        written = writer.avro()
        check_values(written)
        self._record = RecordType(avro, wanted, [written])
        self._columns = ColumnPlan.of(avro, written, self._record)
        # that in Python is slow, but tells a payload that is nested too deep, where the compiled one has no more stack
        self._read: Any = fastavro._read_py.schemaless_reader if is_deep(written) else fastavro.schemaless_reader
        self.type = wanted
        self._value = _value_of(self._record)
        self._bound = EmptyItemsBound(written) if has_empty_items(written) else None
        try:
            self._writer = fastavro.parse_schema(_plain(json.loads(writer.schema.data)))
            self._reader = fastavro.parse_schema(
                _only(_plain(json.loads(reader.schema.data)), set(self._record.members))
            )
            set_defaults(self._reader, avro)
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError, TypeError) as error:
            raise SchemaError(f"the AVRO schema cannot be read: {error}{RAW}") from error

    def decode(self, payloads: Any) -> Any:
        """Returns the payloads as an array of `type`."""
        if self._columns is not None:
            return self._record.to_spark(self._columns.decode(payloads))
        writer, reader, value = self._writer, self._reader, self._value
        read, stream = self._read, io.BytesIO
        rows: list[Any] = []
        for payload in payloads.to_pylist():
            source = stream(payload)
            if self._bound is not None:
                self._bound.check(payload, len(rows))
            try:
                row = read(source, writer, reader, return_record_name=True, return_record_name_override=True)
            except Exception as error:
                raise UndecodablePayload(f"it is no AVRO of its schema: {_told(error)}", len(rows)) from error
            if source.tell() != len(payload):
                raise UndecodablePayload(
                    f"{len(payload) - source.tell()} bytes are left over behind the record", len(rows)
                )
            rows.append(row if value is None else value(row))
        try:
            return self._record.to_spark(pa.array(rows, self._record.physical))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError) as error:
            raise UndecodablePayload(f"it does not fit Spark's types: {_told(error)}") from error


def _told(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:197]}..."


def _plain(schema: Any) -> Any:
    """Returns the JSON of a definition without logical types: those are converted by column."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: value if key == "default" else _plain(value) for key, value in schema.items() if key != "logicalType"}


def _only(schema: Any, names: set[str]) -> Any:
    """Returns the JSON of a record with the named fields alone, unless a later one refers to a type of one left out."""
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        return schema
    pruned = {**schema, "fields": [each for each in schema["fields"] if each["name"] in names]}
    try:
        fastavro.parse_schema(pruned)
    except fastavro.schema.UnknownType:
        return schema
    return pruned


def _value_of(record: RecordType) -> Value | None:
    """Returns what turns a decoded value into one that Arrow takes; None where nothing is to do."""
    if record.is_union:
        return _union_value(record)
    if record.items is not None:
        inner = _value_of(record.items)
        if inner is None:
            return None
        if record.kind == "array":
            return lambda values: None if values is None else [inner(each) for each in values]
        return lambda values: None if values is None else {key: inner(each) for key, each in values.items()}
    members = {name: value for name, member in record.members.items() if (value := _value_of(member)) is not None}
    if not members:
        return None

    def of_record(fields: Any) -> Any:
        return None if fields is None else fields | {name: value(fields[name]) for name, value in members.items()}

    return of_record


def _union_value(record: RecordType) -> Value:
    """Returns what puts a value of a union into the member that is its branch, told by its Python type."""
    named = {member.avro.name: name for name, member in record.branches.items() if member.kind == "record"}
    by_type: dict[type, str] = {}
    for name, member in record.branches.items():
        for kind in _PYTHON_TYPES[member.kind]:
            other = record.branches[by_type.setdefault(kind, name)].kind
            if by_type[kind] != name and not other == member.kind == "record":  # records carry their names
                raise SchemaError(f"a union of {other} and {member.kind} cannot be read: they look alike{RAW}")
    values = {name: _value_of(member) for name, member in record.branches.items()}

    def of_union(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, tuple):
            name, value = named[value[0]], value[1]
        else:
            name = by_type[type(value)]
        inner = values[name]
        return {name: value if inner is None else inner(value)}

    return of_union
