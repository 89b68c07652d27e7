"""Definitions that the tests of schemas share."""

import base64
import json
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet

A: dict[str, Any] = {"name": "a", "type": "int"}
B_WITH_DEFAULT: dict[str, Any] = {"name": "b", "type": ["null", "int"], "default": None}
B_REQUIRED: dict[str, Any] = {"name": "b", "type": "int"}


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> bytes:
    """The Avro definition of a record."""
    return json.dumps({"type": "record", "name": name, "fields": list(fields), **more}).encode()


def native(root: str, message: str = "M") -> bytes:
    """The definition of a PROTOBUF_NATIVE schema whose one file describes `message` in the package `p`."""
    files = FileDescriptorSet()
    file = files.file.add(name="f.proto", package="p")
    file.message_type.add(name=message).nested_type.add(name="Inner")
    text = base64.b64encode(files.SerializeToString()).decode()
    named = {"fileDescriptorSet": text, "rootMessageTypeName": root, "rootFileDescriptorName": "f.proto"}
    return json.dumps(named).encode()
