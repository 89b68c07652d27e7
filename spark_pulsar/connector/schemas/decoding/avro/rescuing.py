"""AVRO payloads whose version has fields that the schema of the read lacks: those become JSON text (SCHEMA-21).

The definitions say which versions have such fields. Only payloads of these are read by the library a second time, for
the text; all columns come from the decoder of columns.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.decoding.avro.bounds import is_deep
from spark_pulsar.connector.schemas.decoding.avro.decoder import AvroDecoder, plain_definition
from spark_pulsar.connector.schemas.decoding.avro.library_schemas import parse
from spark_pulsar.connector.schemas.decoding.avro.name_resolution import branch_of_reader, fields_of_reader
from spark_pulsar.connector.schemas.decoding.avro.opaque_values import branch_of_value, text_of
from spark_pulsar.connector.schemas.payloads.decoder import Decoder, UndecodablePayload
from spark_pulsar.connector.schemas.payloads.record_types import RecordType
from spark_pulsar.connector.schemas.payloads.rescued import rescued_type, with_rescued
from spark_pulsar.connector.schemas.types.arrow_types import branches_of

if TYPE_CHECKING:
    from spark_pulsar.connector.schemas.definition import Definition
    from spark_pulsar.model.avro import AvroType

Text = Callable[[Any], str | None]
"""Returns the JSON text of the part of a value that is to be rescued; None without any."""


def avro_decoder(reader: Definition, writer: Definition, wanted: Any) -> Decoder:
    """Returns the decoder of payloads of a version: with rescued texts where it has what the schema of the read lacks.
    Raises SchemaError."""
    unread = _unread_fields(reader, writer, wanted)
    kept = pa.struct([column for column in wanted if column.name not in unread]) if unread else wanted
    decoder = AvroDecoder(reader, writer, kept)
    written, read = writer.avro(), reader.avro()
    text = _text_of_rest(written, RecordType(read, kept, [written]), unread)
    return decoder if text is None else AvroRescuingDecoder(decoder, writer, wanted, text)


class AvroRescuingDecoder:
    """Payloads of a version with fields that have no column."""

    def __init__(self, decoder: AvroDecoder, writer: Definition, wanted: Any, text: Text) -> None:
        """Columns of `wanted` that the decoder does not make are null."""
        self.type = rescued_type(wanted)
        self._decoder = decoder
        self._wanted = wanted
        self._text = text
        self._writer = parse(plain_definition(json.loads(writer.schema.data)))
        is_nested_deep = is_deep(writer.avro())
        self._read: Any = fastavro._read_py.schemaless_reader if is_nested_deep else fastavro.schemaless_reader

    def decode(self, payloads: Any) -> Any:
        """Returns the payloads as an array of `type`. Raises UndecodablePayload."""
        try:
            values = self._decoder.decode(payloads)
        except UndecodablePayload as error:
            raise error.without_partial() from None
        if values.type != self._wanted:
            made = {column.name: values.field(i) for i, column in enumerate(values.type)}
            arrays = [made.get(column.name, pa.nulls(len(values), column.type)) for column in self._wanted]
            values = pa.StructArray.from_arrays(arrays, fields=list(self._wanted))
        return with_rescued(values, [self._rescued(payload, row) for row, payload in enumerate(payloads.to_pylist())])

    def _rescued(self, payload: bytes, row: int) -> str | None:
        stream = io.BytesIO(payload)
        try:
            return self._text(
                self._read(stream, self._writer, None, return_record_name=True, return_record_name_override=True)
            )
        except UndecodablePayload as error:
            raise UndecodablePayload(error.reason, row) from None
        except Exception as error:  # the library has no error of its own
            raise UndecodablePayload(f"it is no AVRO of its schema: {error}", row) from error


def _unread_fields(reader: Definition, writer: Definition, wanted: Any) -> frozenset[str]:
    """Returns the wanted fields whose type in the version is none that can be read as the column's."""
    written, read = writer.avro(), reader.avro()
    if written.kind != "record" or read.kind != "record" or reader.schema.data == writer.schema.data:
        return frozenset()
    pairs = {field.name: name for name, field in fields_of_reader(written, read).items()}
    types = {avro_field.name: avro_field.type for avro_field in written.fields}
    known = {avro_field.name: avro_field.type for avro_field in read.fields}
    unread = {
        column.name
        for column in wanted
        if column.name in pairs and not _may_be_read(types[pairs[column.name]], known[column.name])
    }
    try:
        AvroDecoder(reader, writer, pa.struct([column for column in wanted if column.name not in unread]))
    except SchemaError:
        unread |= {
            column.name for column in wanted if column.name in pairs and not _is_readable(reader, writer, column)
        }
    return frozenset(unread)


def _may_be_read(written: AvroType, read: AvroType) -> bool:
    """Returns whether there is a value of a type, but null, that the other one takes."""
    branches = branches_of(written) if written.kind == "union" else [written]
    return not branches or any(branch_of_reader(branch, read) is not None for branch in branches)


def _is_readable(reader: Definition, writer: Definition, field: Any) -> bool:
    try:
        AvroDecoder(reader, writer, pa.struct([field]))
    except SchemaError:
        return False
    return True


def _text_of_rest(written: AvroType, record: RecordType | None, unread: Collection[str] = ()) -> Text | None:
    """Returns what makes the text of the fields of a writer's value that a wanted type lacks, and of those that are
    `unread`; None where it has all of them."""
    if record is None or record.is_opaque:
        return None
    if written.kind == "union":
        return _text_of_union(written, record)
    if record.is_union:
        return _text_of_rest(written, _branch_for(written, record))
    if written.kind == "record" and record.kind == "record":
        return _text_of_record(written, record, unread)
    if written.items is None or record.items is None or written.kind != record.kind:
        return None
    inner = _text_of_rest(written.items, record.items)
    if inner is None:
        return None
    if written.kind == "map":
        return lambda value: None if value is None else _object([(key, inner(item)) for key, item in value.items()])

    def of_items(value: Any) -> str | None:
        texts = [inner(item) for item in value or ()]
        return f"[{','.join(text or 'null' for text in texts)}]" if any(texts) else None

    return of_items


def _text_of_record(written: AvroType, record: RecordType, unread: Collection[str]) -> Text | None:
    pairs = fields_of_reader(written, record.avro)
    parts: list[tuple[str, Text]] = []
    for field in written.fields:
        read = pairs.get(field.name)
        if read is None or read.name in unread:
            parts.append((field.name, text_of(field.type)))
        elif (inner := _text_of_rest(field.type, record.members.get(read.name))) is not None:
            parts.append((field.name, inner))
    if not parts:
        return None
    return lambda value: None if value is None else _object([(name, text(value[name])) for name, text in parts])


def _text_of_union(written: AvroType, record: RecordType) -> Text | None:
    inner: dict[int, Text] = {}
    for i, branch in enumerate(written.branches):
        text = None if branch.kind == "null" else _text_of_rest(branch, record)
        if text is not None:
            inner[i] = text
    if not inner:
        return None

    def of_union(value: Any) -> str | None:
        if value is None:
            return None
        number, value = branch_of_value(written, value)
        return inner[number](value) if number in inner else None

    return of_union


def _branch_for(written: AvroType, record: RecordType) -> RecordType | None:
    """Returns the branch of a wanted union that a writer's type becomes."""
    target = branch_of_reader(written, record.avro)
    others = branches_of(record.avro)
    return next((record.branches[f"member{i}"] for i, other in enumerate(others) if other is target), None)


def _object(parts: list[tuple[str, str | None]]) -> str | None:
    texts = [f"{json.dumps(name, ensure_ascii=False)}:{text}" for name, text in parts if text is not None]
    return f"{{{','.join(texts)}}}" if texts else None
