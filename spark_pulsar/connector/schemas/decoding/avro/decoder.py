"""Payloads of AVRO schemas: decoded with their writer's schema, resolved to the reader's (SCHEMA-5, SCHEMA-19)."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.decoding.avro.bounds import (
    EmptyItemsBound,
    check_values,
    has_empty_items,
    has_items,
    is_deep,
)
from spark_pulsar.connector.schemas.decoding.avro.column_plan import ColumnPlan
from spark_pulsar.connector.schemas.decoding.avro.library_schemas import default_value, parse, set_defaults
from spark_pulsar.connector.schemas.decoding.avro.matching import put_own_kind_first
from spark_pulsar.connector.schemas.decoding.avro.name_resolution import resolve_names
from spark_pulsar.connector.schemas.decoding.avro.opaque_values import PYTHON_TYPES, bytes_of, text_of
from spark_pulsar.connector.schemas.linked_definition import linked, unlinked
from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload
from spark_pulsar.connector.schemas.payloads.flat_payloads import without
from spark_pulsar.connector.schemas.payloads.record_types import RecordType
from spark_pulsar.connector.schemas.types.arrow_types import RAW
from spark_pulsar.model.extras import require

require("decoding AVRO messages", "fastavro")
import fastavro  # noqa: E402
import fastavro._read_py  # noqa: E402

if TYPE_CHECKING:
    from spark_pulsar.connector.schemas.definition import Definition
    from spark_pulsar.model.avro import AvroType

Value = Callable[[Any], Any]

_PYTHON_TYPES: Final = {**PYTHON_TYPES, "record": (dict, tuple)}
"""Types of values in a union, where a record is a pair of name and fields."""


class AvroDecoder:
    """Payloads of one writer's schema.

    Fields that the reader has and the writer lacks have the default of the reader's definition, or are null; fields
    that only the writer has are skipped.
    """

    def __init__(self, reader: Definition, writer: Definition, wanted: Any) -> None:
        names = [field.name for field in wanted] if pa.types.is_struct(wanted) else []
        resolution = resolve_names(reader, writer, names)
        if resolution.refusal:
            raise SchemaError(resolution.refusal)
        reader, writer = resolution.reader, resolution.writer
        self._hint = resolution.hint
        avro = reader.avro()
        written = writer.avro()
        check_values(written)
        self._record = RecordType(avro, wanted, [written])
        self._columns = ColumnPlan.of(avro, written, self._record, _default_value)
        # that in Python is slow, but refuses a payload that is nested too deep, where the compiled one has no more
        # stack
        self._read: Any = fastavro._read_py.schemaless_reader if is_deep(written) else fastavro.schemaless_reader
        self.type = wanted
        self._value = _value_of(self._record)
        try:
            self._writer = parse(plain_definition(json.loads(writer.schema.data)))
            plain = plain_definition(json.loads(reader.schema.data))
            if not _has_opaque(self._record):  # that may hold the record again, with all of its fields
                plain = _only(plain, set(self._record.members))
            self._reader = parse(plain)
            set_defaults(self._reader, avro)
            put_own_kind_first(self._reader, written)
        except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType, ValueError, TypeError) as error:
            raise SchemaError(f"the AVRO schema cannot be read: {error}{RAW}") from error
        is_walked = has_empty_items(written) or (self._writer != self._reader and has_items(written))
        self._bound = EmptyItemsBound(written) if is_walked else None

    def decode(self, payloads: Any) -> Any:
        """Returns the payloads as an array of `type`."""
        try:
            return self._decoded(payloads)
        except UndecodablePayload as error:
            if not self._hint:
                raise
            raise error.explained(self._hint) from None

    def _decoded(self, payloads: Any) -> Any:
        if self._columns is not None:
            return self._by_column(self._columns, payloads)
        writer, reader, value = self._writer, self._reader, self._value
        read, stream = self._read, io.BytesIO
        rows: list[Any] = []
        errors: dict[int, str] = {}
        for at, payload in enumerate(payloads.to_pylist()):
            source = stream(payload)
            try:
                if self._bound is not None:
                    self._bound.check(payload)
                row = read(source, writer, reader, return_record_name=True, return_record_name_override=True)
                is_whole = source.tell() == len(payload)
                if is_whole and value is not None:
                    row = value(row)
            except UndecodablePayload as error:
                errors[at], row = error.reason, None
            except Exception as error:  # noqa: BLE001 - the library has no error of its own
                errors[at], row = f"it is no AVRO of its schema: {_shortened(error)}", None
            else:
                if not is_whole:
                    errors[at] = f"{len(payload) - source.tell()} bytes are left over behind the record"
            rows.append(None if at in errors else row)
        try:
            values = self._record.to_spark(pa.array(rows, self._record.physical))
        except (UndecodablePayload, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError) as error:
            if errors:
                raise UndecodablePayload.of(errors) from error
            if isinstance(error, UndecodablePayload):
                raise
            raise UndecodablePayload(f"it does not fit Spark's types: {_shortened(error)}") from error
        if errors:
            raise UndecodablePayload.of(errors, values)
        return values

    def _by_column(self, columns: ColumnPlan, payloads: Any) -> Any:
        values, reasons = columns.decode(payloads)
        try:
            values = self._record.to_spark(values)
        except UndecodablePayload as error:
            raise (UndecodablePayload.of(reasons) if reasons else error) from error
        if reasons:
            raise UndecodablePayload.of(reasons, without(values, reasons.are_of(len(payloads))))
        return values


def _default_value(default: Any, avro: AvroType, record: RecordType) -> Any:
    """Returns the value of a field's default, as Arrow takes it for the record type."""
    given, value = default_value(default, avro), _value_of(record)
    return given if value is None else value(given)


def _shortened(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:197]}..."


def plain_definition(schema: Any) -> Any:
    """Returns the JSON of a definition without logical types: those are converted by column."""
    if isinstance(schema, list):
        return [plain_definition(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value if key == "default" else plain_definition(value)
        for key, value in schema.items()
        if key != "logicalType"
    }


def _only(schema: Any, names: set[str]) -> Any:
    """Returns the JSON of a record with the named fields alone."""
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        return schema
    record = linked(schema)
    return unlinked({**record, "fields": [field for field in record["fields"] if field["name"] in names]})


def _has_opaque(record: RecordType) -> bool:
    parts = [*record.branches.values(), *record.members.values(), *([record.items] if record.items else [])]
    return record.is_opaque or any(_has_opaque(part) for part in parts)


def _value_of(record: RecordType) -> Value | None:
    """Returns what turns a decoded value into one that Arrow takes; None where nothing is to do."""
    if record.is_opaque:
        return text_of(record.avro) if pa.types.is_string(record.arrow) else bytes_of(record.avro)
    if record.is_union:
        return _union_value(record)
    if record.items is not None:
        inner = _value_of(record.items)
        if inner is None:
            return None
        if record.kind == "array":
            return lambda values: None if values is None else [inner(item) for item in values]
        return lambda values: None if values is None else {key: inner(item) for key, item in values.items()}
    members = {name: value for name, member in record.members.items() if (value := _value_of(member)) is not None}
    if not members:
        return None

    def of_record(fields: Any) -> Any:
        return None if fields is None else fields | {name: value(fields[name]) for name, value in members.items()}

    return of_record


def _union_value(record: RecordType) -> Value:
    """Returns what puts a value of a union into the member that is its branch, found by its Python type: of those that
    the payloads may hold, and of the others for defaults."""
    named = {member.avro.name: name for name, member in record.branches.items() if member.kind == "record"}
    by_type: dict[type, str] = {}
    for name, member in sorted(record.branches.items(), key=lambda item: not item[1].is_written):
        for kind in _PYTHON_TYPES[member.kind]:
            other = record.branches[by_type.setdefault(kind, name)].kind
            are_records = other == member.kind == "record"  # which carry their names
            if by_type[kind] != name and member.is_written and not are_records:
                raise SchemaError(
                    f"a union of {other} and {member.kind} cannot be read: their values cannot be distinguished{RAW}"
                )
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
