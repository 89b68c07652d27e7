"""The plain reading of entries, message by message, by protobuf itself: what the kernels must agree with.

Strings are declared as bytes and enumerations as numbers here, so that protobuf neither refuses text that is not UTF-8
nor hides values it does not know. So are properties, which are read only of messages that are wanted.
"""

import base64
import re
import struct
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from spark_pulsar.wire import pulsar_api_pb2
from spark_pulsar.wire.columns.entries import EntrySlice

_BASE64 = re.compile(rb"[A-Za-z0-9+/]*={0,2}")


class Refused(Exception):
    """The oracle cannot read the entry."""


def _raw_messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto()
    pulsar_api_pb2.DESCRIPTOR.CopyToProto(file)
    file.name, file.package = "oracle.proto", "oracle"
    kept = {"MessageMetadata", "SingleMessageMetadata", "KeyValue", "MessageIdData"}
    messages = [message for message in file.message_type if message.name in kept]
    del file.message_type[:], file.enum_type[:], file.service[:]
    file.message_type.extend(messages)
    for message in file.message_type:
        for field in message.field:
            if field.type == field.TYPE_STRING:
                field.type = field.TYPE_BYTES
                field.ClearField("default_value")
            elif field.type == field.TYPE_ENUM:
                field.type = field.TYPE_INT32
                field.ClearField("type_name")
                field.ClearField("default_value")
            elif field.name in ("properties", "encryption_keys"):
                field.type = field.TYPE_BYTES
                field.ClearField("type_name")
            elif field.type == field.TYPE_MESSAGE:
                field.type_name = ".oracle." + field.type_name.rsplit(".", 1)[1]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"oracle.{name}")) for name in kept}


_MESSAGES = _raw_messages()
MessageMetadata = _MESSAGES["MessageMetadata"]
KeyValue = _MESSAGES["KeyValue"]
SingleMessageMetadata = _MESSAGES["SingleMessageMetadata"]
MessageIdData = _MESSAGES["MessageIdData"]


def parse(kind: Any, data: bytes) -> Any:
    """A protobuf message with all its required fields, or Refused."""
    message = kind()
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise Refused(str(error)) from error
    if not message.IsInitialized():
        raise Refused("a required field is missing")
    return message


def split_entry(data: bytes) -> tuple[bytes, bytes]:
    """(metadata, payload) of an entry."""
    try:
        if data[:2] == b"\x0e\x02" and len(data) >= 6:
            (size,) = struct.unpack_from(">I", data, 2)
            if size > len(data) - 6:
                raise Refused("broker metadata reaches beyond the end")
            data = data[6 + size :]
        if data[:2] == b"\x0e\x01" and len(data) >= 6:
            data = data[6:]
        (size,) = struct.unpack_from(">I", data)
    except struct.error as error:
        raise Refused(str(error)) from error
    if size > len(data) - 4:
        raise Refused("metadata reaches beyond the end")
    return data[4 : 4 + size], data[4 + size :]


def _key(message: Any) -> bytes | None:
    if message.null_partition_key or not message.HasField("partition_key"):
        return None
    text: bytes = message.partition_key
    if not message.partition_key_b64_encoded:
        return text
    digits = text.rstrip(b"=") if len(text) % 4 == 0 else text
    if not _BASE64.fullmatch(text) or b"=" in digits or len(digits) % 4 == 1:
        raise Refused("not base64")
    return base64.b64decode(digits + b"=" * (-len(digits) % 4))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _properties(message: Any) -> list[tuple[str, str]]:
    pairs: dict[bytes, bytes] = {}
    for pair in (parse(KeyValue, data) for data in message.properties):
        pairs.pop(pair.key, None)  # the last of equal keys counts, in its place
        pairs[pair.key] = pair.value
    return [(key.decode(errors="replace"), value.decode(errors="replace")) for key, value in pairs.items()]


def _message_id(entry: EntrySlice, batch_index: int, batch_size: int) -> bytes:
    ids = MessageIdData(ledgerId=entry.ledger_id, entryId=entry.entry_id)
    if entry.partition >= 0:
        ids.partition = entry.partition
    if batch_index >= 0:
        ids.batch_index, ids.batch_size = batch_index, batch_size
    if entry.first_chunk is not None:
        ids.first_chunk_message_id.ledgerId, ids.first_chunk_message_id.entryId = entry.first_chunk
        if entry.partition >= 0:
            ids.first_chunk_message_id.partition = entry.partition
    serialized: bytes = ids.SerializeToString()
    return serialized


def _row(entry: EntrySlice, metadata: Any, message: Any, index: int, size: int, value: bytes | None) -> dict[str, Any]:
    return {
        "value": value,
        "key": _key(message),
        "properties": _properties(message),
        "publish_time": _signed(metadata.publish_time),
        "event_time": _signed(message.event_time) or None,
        "sequence_id": _signed(message.sequence_id if message.HasField("sequence_id") else metadata.sequence_id),
        "producer_name": metadata.producer_name.decode(errors="replace"),
        "batch_index": index,
        "ledger_id": entry.ledger_id,
        "entry_id": entry.entry_id,
        "partition": entry.partition,
        "message_id": _message_id(entry, index, size),
    }


def _batch(entry: EntrySlice, metadata: Any, payload: bytes) -> list[dict[str, Any]]:
    rows, at, count = [], 0, metadata.num_messages_in_batch
    if count < 0:
        raise Refused("a negative number of messages")
    stop = count if entry.stop_index is None else min(count, entry.stop_index)
    for index in range(count):
        if index >= stop:
            # Messages behind the bound are not looked at, but must have room.
            if len(payload) < 6 * count:
                raise Refused("more messages than the payload can hold")
            break
        if len(payload) - at < 4:
            raise Refused("the payload ends early")
        (size,) = struct.unpack_from(">I", payload, at)
        at += 4
        if size > len(payload) - at:
            raise Refused("an item's metadata reaches beyond the end")
        message = parse(SingleMessageMetadata, payload[at : at + size])
        at += size
        if not 0 <= message.payload_size <= len(payload) - at:
            raise Refused("an item's payload size is out of range")
        value = payload[at : at + message.payload_size]
        at += message.payload_size
        word, bit = divmod(index, 64)
        delivered = not entry.ack_set or (word < len(entry.ack_set) and entry.ack_set[word] >> bit & 1)
        if index >= entry.first_index and delivered and not message.compacted_out:
            rows.append(_row(entry, metadata, message, index, count, None if message.null_value else value))
    return rows


def rows_of(entry: EntrySlice) -> list[dict[str, Any]]:
    """All wanted messages of one uncompressed entry, as ``decode_entries`` shows them; Refused where it raises."""
    head, payload = split_entry(bytes(entry.data))
    metadata = parse(MessageMetadata, head)
    if metadata.HasField("marker_type"):
        return []
    if metadata.num_chunks_from_msg > 1 or metadata.encryption_keys or metadata.compression:
        raise Refused("a chunk, encrypted, or compressed")
    if metadata.HasField("num_messages_in_batch"):
        return _batch(entry, metadata, payload)
    stop = 1 if entry.stop_index is None else entry.stop_index
    if not entry.first_index <= 0 < stop:
        return []
    return [_row(entry, metadata, metadata, -1, 0, None if metadata.null_value else payload)]


def has_group(data: bytes) -> bool:
    """Tells whether a field of the deprecated group kind, which the kernels refuse, is met before anything else is
    wrong."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    try:
        while at < len(data):
            kind = varint() & 7
            if kind in (3, 4):
                return True
            if kind == 0:
                varint()
            elif kind == 2:
                at += varint()
            else:
                at += 8 if kind == 1 else 4
    except IndexError:
        return False
    return False


def anywhere_a_group(entry: EntrySlice) -> bool:
    """Tells whether the metadata of the entry, of one of its items, or of a property has a group."""
    try:
        head, payload = split_entry(bytes(entry.data))
        metadata = parse(MessageMetadata, head)
    except Refused:
        return True
    parts = [head, *metadata.properties]
    at = 0
    while metadata.HasField("num_messages_in_batch") and len(payload) - at >= 4:
        (size,) = struct.unpack_from(">I", payload, at)
        item = payload[at + 4 : at + 4 + size]
        parts.append(item)
        try:
            message = parse(SingleMessageMetadata, item)
        except Refused:
            break
        parts += message.properties
        at += 4 + size + max(0, message.payload_size)
    return any(has_group(part) for part in parts)
