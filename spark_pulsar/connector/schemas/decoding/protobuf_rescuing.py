"""PROTOBUF_NATIVE payloads with fields that the schema of the read lacks, by their numbers (SCHEMA-21).

Protobuf keeps such fields aside, which shows them without a second pass. The version that the message carries names
them; what that has not either goes by its number.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.decoding.protobuf_payloads import ProtobufDecoder
from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload
from spark_pulsar.connector.schemas.payloads.rescued import rescued_type, with_rescued
from spark_pulsar.connector.schemas.types.protobuf_types import is_map, root_message
from spark_pulsar.wire.protocol.field_counts import is_repeated

if TYPE_CHECKING:
    from spark_pulsar.connector.schemas.decoding.evolution import Evolution
    from spark_pulsar.connector.schemas.definition import Definition


class ProtobufRescuingDecoder:
    """Payloads of a PROTOBUF_NATIVE schema with the texts of fields that have no column."""

    def __init__(self, reader: Definition, writer: Definition | None, wanted: Any, evolution: Evolution) -> None:
        self.type = rescued_type(wanted)
        self._decoder = ProtobufDecoder(reader, wanted)
        self._wanted = wanted
        self._evolution = evolution
        descriptor = root_message(reader)
        self._parse = GetMessageClass(descriptor).FromString
        self._written: Any = None
        if writer is not None and writer.schema.data != reader.schema.data:
            try:
                self._written = GetMessageClass(root_message(writer)).FromString
            except SchemaError:
                self._written = None

    def decode(self, payloads: Any) -> Any:
        """Returns the payloads as an array of `type`. Raises UndecodablePayload, and NewColumnsError for fields that no
        version names, where they end the query."""
        try:
            values = self._decoder.decode(payloads)
        except UndecodablePayload as error:
            raise error.without_partial() from None
        texts: list[str | None] | None = None
        for row, payload in enumerate(payloads.to_pylist()):
            message = self._parse(payload)
            if not _has_rest(message, self._wanted):
                continue
            rest = _rest(message, self._as_written(payload), self._wanted)
            self._evolution.refuse_undeclared(dict(_undeclared(rest, "")))
            texts = texts or [None] * len(payloads)
            texts[row] = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
        return with_rescued(values, texts)

    def _as_written(self, payload: bytes) -> Any:
        try:
            return None if self._written is None else self._written(payload)
        except DecodeError:
            return None


def _unknown_fields(message: Any) -> Iterator[Any]:
    fields: Any = UnknownFieldSet(message)
    yield from fields


def _has_rest(message: Any, wanted: Any) -> bool:
    """Returns whether a message, or one inside of it that is wanted, has fields that its descriptor lacks."""
    if len(UnknownFieldSet(message)):
        return True
    return any(_has_rest(nested, kind) for _, nested, _, kind in _inner_messages(message, None, wanted))


def _inner_messages(message: Any, written: Any, wanted: Any) -> Iterator[tuple[tuple[str, Any], Any, Any, Any]]:
    """Yields the messages in the wanted fields of a message: name, and key or place; message; as written; type."""
    fields = message.DESCRIPTOR.fields_by_name
    for column in wanted:
        field = fields[column.name]
        if field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE:
            continue
        kind = column.type
        other = None if written is None else written.DESCRIPTOR.fields_by_number.get(field.number)
        if other is not None and (other.cpp_type != field.cpp_type or is_repeated(other) != is_repeated(field)):
            other = None
        theirs = None if other is None else getattr(written, other.name)
        if is_map(field):
            if pa.types.is_struct(kind.item_type):
                for key, value in getattr(message, column.name).items():
                    yield (column.name, key), value, None if theirs is None else theirs[key], kind.item_type
        elif is_repeated(field):
            if pa.types.is_struct(kind.value_type):
                for i, value in enumerate(getattr(message, column.name)):
                    yield (column.name, i), value, None if theirs is None else theirs[i], kind.value_type
        elif pa.types.is_struct(kind) and message.HasField(column.name):
            yield (column.name, None), getattr(message, column.name), theirs, kind


def _rest(message: Any, written: Any, wanted: Any) -> dict[str, Any]:
    """Returns what a message has that its descriptor lacks: by name where the written one has it, else by number."""
    rest: dict[str, Any] = {}
    unknown: dict[int, list[Any]] = {}
    for unknown_field in _unknown_fields(message):
        unknown.setdefault(unknown_field.field_number, []).append(_plain(unknown_field.data))
    named = {} if written is None else {field.number: field.name for field, _ in written.ListFields()}
    shown = _json_of(written) if unknown.keys() & named.keys() else {}
    for number, values in unknown.items():
        name = named.get(number, "")
        if name in shown:
            rest[name] = shown[name]
        else:
            rest[f"#{number}"] = values[0] if len(values) == 1 else values
    for (name, place), nested, other, kind in _inner_messages(message, written, wanted):
        inner = _rest(nested, other, kind)
        if inner and place is None:
            rest[name] = inner
        elif inner and isinstance(place, int) and not is_map(message.DESCRIPTOR.fields_by_name[name]):
            items = rest.setdefault(name, [None] * len(getattr(message, name)))
            items[place] = inner
        elif inner:
            rest.setdefault(name, {})[str(place)] = inner
    return rest


def _json_of(message: Any) -> dict[str, Any]:
    """Returns a message in protobuf's JSON, with the names of its fields as they are; empty where it has none."""
    try:
        pool = message.DESCRIPTOR.file.pool
        members: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=pool)
    except (TypeError, SerializeToJsonError):  # an Any of a type that the schema lacks
        return {}
    return members


def _plain(data: Any) -> Any:
    if isinstance(data, bytes):
        return base64.b64encode(data).decode()
    if isinstance(data, int):
        return data
    return {f"#{unknown_field.field_number}": _plain(unknown_field.data) for unknown_field in data}


def _undeclared(rest: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yields the paths and kinds of fields that no version names."""
    items = rest.items() if isinstance(rest, dict) else ((None, item) for item in rest or ())
    for name, item in items:
        place = f"{path}[]" if name is None else f"{path}.{name}".lstrip(".")
        if name is not None and name.startswith("#"):
            yield place, "bigint" if isinstance(item, int) else "binary"
        elif isinstance(item, dict | list):
            yield from _undeclared(item, place)
