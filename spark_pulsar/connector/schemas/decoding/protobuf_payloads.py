"""Payloads of PROTOBUF_NATIVE schemas: messages of the descriptor that the schema holds, decoded by protobuf's library.

All versions are read with the newest descriptor: protobuf identifies fields by their numbers, and leaves unknown ones
out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToJson, SerializeToJsonError
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload
from spark_pulsar.connector.schemas.types.protobuf_types import is_map, root_message
from spark_pulsar.wire.protocol.field_counts import is_repeated

if TYPE_CHECKING:
    from spark_pulsar.connector.schemas.definition import Definition

Value = Callable[[Any], Any]


class ProtobufDecoder:
    """Payloads of a PROTOBUF_NATIVE schema. Fields that know presence and are not set are null."""

    def __init__(self, reader: Definition, wanted: Any) -> None:
        descriptor = root_message(reader)
        self.type = wanted
        self._parse = GetMessageClass(descriptor).FromString
        self._value = _message_value(descriptor, wanted)

    def decode(self, payloads: Any) -> Any:
        """Returns the payloads as an array of `type`."""
        parse, value = self._parse, self._value
        rows: list[Any] = []
        errors: dict[int, str] = {}
        for row, payload in enumerate(payloads.to_pylist()):
            try:
                rows.append(value(parse(payload)))
            except (DecodeError, UnicodeDecodeError) as error:
                errors[row] = f"it is no message of its schema: {error}"
                rows.append(None)
        try:
            values = pa.array(rows, self.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError) as error:
            if errors:
                raise UndecodablePayload.of(errors) from error
            raise UndecodablePayload(f"it does not fit Spark's types: {error}") from error
        if errors:
            raise UndecodablePayload.of(errors, values)
        return values


def _message_value(descriptor: Any, wanted: Any) -> Value:
    """Returns what turns a message into a dictionary of the wanted fields."""
    readers = [
        (wanted_field.name, _field_value(descriptor.fields_by_name[wanted_field.name], wanted_field.type))
        for wanted_field in wanted
    ]

    def value(message: Any) -> dict[str, Any]:
        return {name: read(message) for name, read in readers}

    return value


def _field_value(field: Any, wanted: Any) -> Value:
    name = field.name
    if is_map(field):
        item = _single_value(field.message_type.fields_by_name["value"], wanted.item_type)
        return lambda message: [(key, item(element)) for key, element in getattr(message, name).items()]
    if is_repeated(field):
        item = _single_value(field, wanted.value_type)
        return lambda message: [item(element) for element in getattr(message, name)]
    single = _single_value(field, wanted)
    if field.has_presence:
        return lambda message: single(getattr(message, name)) if message.HasField(name) else None
    return lambda message: single(getattr(message, name))


def _single_value(field: Any, wanted: Any) -> Value:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE and not pa.types.is_struct(wanted):
        return _text if pa.types.is_string(wanted) else lambda message: message.SerializeToString()
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        return _message_value(field.message_type, wanted)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        names = {symbol.number: symbol.name for symbol in field.enum_type.values}
        return lambda number: names.get(number, str(number))  # a number of the future stays a number
    return lambda value: value


def _text(message: Any) -> str:
    """Returns a message that Spark has no type for as protobuf's JSON, with the names of its fields as they are."""
    try:
        pool = message.DESCRIPTOR.file.pool
        return str(MessageToJson(message, preserving_proto_field_name=True, indent=None, descriptor_pool=pool))
    except (TypeError, SerializeToJsonError) as error:  # an Any of a type that the schema lacks
        raise DecodeError(str(error)) from error
