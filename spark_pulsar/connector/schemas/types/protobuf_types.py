"""Types of PROTOBUF_NATIVE schemas: the descriptor that a schema holds, and the struct of its message."""

from __future__ import annotations

import base64
import importlib
import json
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import Default as default_pool
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.definition import MAX_DEFINITION_BYTES
from spark_pulsar.connector.schemas.types.arrow_types import MAX_TYPES, RAW, odd_type
from spark_pulsar.wire.protocol.field_counts import is_repeated

if TYPE_CHECKING:
    from spark_pulsar.connector.schemas.definition import Definition

_KNOWN: Final = "google/protobuf/"
_SCALARS: Final[dict[int, Any]] = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
    FieldDescriptor.CPPTYPE_STRING: pa.string(),
}


def root_message(definition: Definition) -> Any:
    """Returns the descriptor of the message of a PROTOBUF_NATIVE schema. Raises SchemaError when there is none."""
    data = definition.schema.data
    if len(data) > MAX_DEFINITION_BYTES:
        raise SchemaError(f"the PROTOBUF_NATIVE schema has {len(data)} bytes, more than {MAX_DEFINITION_BYTES}")
    try:
        document = json.loads(data)
        files = FileDescriptorSet.FromString(base64.b64decode(document["fileDescriptorSet"], validate=True))
        pool = DescriptorPool()
        _add(pool, {file.name: file for file in files.file})
        return pool.FindMessageTypeByName(document["rootMessageTypeName"])
    except (ValueError, TypeError, KeyError, RecursionError, DecodeError) as error:
        raise SchemaError(f"the PROTOBUF_NATIVE schema cannot be read: {error}{RAW}") from error


def _add(pool: DescriptorPool, files: dict[str, FileDescriptorProto]) -> None:
    """Adds files to a pool, each behind those that it imports."""
    _add_known(files)
    imports = {name: [other for other in file.dependency if other in files] for name, file in files.items()}
    try:
        for name in TopologicalSorter(imports).static_order():
            pool.AddSerializedFile(files[name].SerializeToString())
    except CycleError as error:
        raise ValueError(f"files import each other: {', '.join(sorted(set(error.args[1])))}") from error


def _add_known(files: dict[str, FileDescriptorProto]) -> None:
    """Adds the files of protobuf's own types that others import and the schema lacks: every library has them."""
    waiting = list(files.values())
    while waiting:
        for name in waiting.pop().dependency:
            if name in files or not name.startswith(_KNOWN):
                continue
            try:
                importlib.import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
                data = default_pool().FindFileByName(name).serialized_pb
            except (ImportError, KeyError):
                continue
            files[name] = FileDescriptorProto.FromString(data)
            waiting.append(files[name])


def message_type(definition: Definition) -> Any:
    """Returns the struct of the message of a schema, with OddType for a message that contains itself. Raises
    SchemaError."""
    return _Typing().message(root_message(definition), "")


class _TooManyTypes(Exception):
    """A field has too many types."""


class _Typing:
    def __init__(self) -> None:
        self._count = 0
        self._inside: list[str] = []

    def message(self, descriptor: Any, path: str) -> Any:
        """Returns the struct of a message."""
        if descriptor.full_name in self._inside:
            reason = f"the message {descriptor.full_name} contains itself, and Spark has no recursive types"
            return odd_type(path, reason)
        self._inside.append(descriptor.full_name)
        fields = [pa.field(field.name, self._bounded(field, f"{path}.{field.name}")) for field in descriptor.fields]
        self._inside.pop()
        return pa.struct(fields)

    def _bounded(self, field: Any, path: str) -> Any:
        if len(self._inside) > 1:
            return self._field(field, path)
        count = self._count
        try:
            return self._field(field, path)
        except _TooManyTypes:
            self._count, self._inside = count, self._inside[:1]
            return odd_type(path, f"with it the schema has more than {MAX_TYPES} types")

    def _field(self, field: Any, path: str) -> Any:
        self._count += 1
        if self._count > MAX_TYPES:
            raise _TooManyTypes
        if is_map(field):
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            return pa.map_(self._single(key, path), self._single(value, f"{path}[]"))
        single = self._single(field, path)
        return pa.list_(single) if is_repeated(field) else single

    def _single(self, field: Any, path: str) -> Any:
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            return self.message(field.message_type, path)
        return pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else _SCALARS[field.cpp_type]


def is_map(field: Any) -> bool:
    """Returns whether a field is a map."""
    return (
        field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
        and is_repeated(field)
        and bool(field.message_type.GetOptions().map_entry)
    )
