"""An entry as an answer over REST: its payload as body, its metadata as `X-Pulsar-…` headers (admin-rest.md 1.7)."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from spark_pulsar.broker.subscriptions.consumer_stats import timestamp
from spark_pulsar.wire.compression import decompress
from spark_pulsar.wire.entries import Entry, parse_entry, text_of
from spark_pulsar.wire.pulsar_api_pb2 import CompressionType

if TYPE_CHECKING:
    from spark_pulsar.model.ids import Position


def message_answer(position: Position, stored: bytes) -> Response:
    """200 with the payload, uncompressed but encrypted if it was; a batch as it is, one message after the other."""
    entry = parse_entry(stored)
    metadata = entry.metadata
    payload = bytes(entry.payload)
    if metadata.compression and not entry.is_encrypted:
        payload = decompress(metadata.compression, entry.payload, metadata.uncompressed_size)
    response = Response(payload, media_type="application/octet-stream")
    headers = {"X-Pulsar-Message-ID": str(position), **_headers(entry, len(stored))}
    for name, value in headers.items():
        # Header values are bytes; text that is not Latin-1 goes as its UTF-8.
        response.raw_headers.append((name.encode(), value.encode()))
    return response


def _headers(entry: Entry, entry_bytes: int) -> dict[str, str]:
    headers = {"X-Pulsar-Is-Encrypted": _flag(entry.is_encrypted)}
    for field, value in entry.metadata.ListFields():
        if field.name in _FIELDS:
            name, text = _FIELDS[field.name]
            headers[f"X-Pulsar-{name}"] = text(value)
    is_batch = entry.metadata.HasField("num_messages_in_batch")
    if is_batch:
        headers["X-Pulsar-batch-size"] = str(entry_bytes - entry.metadata.ByteSize())
    if entry.metadata.properties or is_batch:
        pairs = {text_of(pair.key): text_of(pair.value) for pair in entry.metadata.properties}
        headers["X-Pulsar-PROPERTY"] = json.dumps(pairs)
    return headers


def _flag(value: bool) -> str:
    return str(value).lower()


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _codec(value: CompressionType.ValueType) -> str:
    return CompressionType.Name(value)


_FIELDS: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "publish_time": ("publish-time", timestamp),
    "event_time": ("event-time", timestamp),
    "deliver_at_time": ("deliver-at-time", timestamp),
    "producer_name": ("producer-name", text_of),
    "sequence_id": ("sequence-id", str),
    "num_messages_in_batch": ("num-batch-message", str),
    "partition_key": ("partition-key", text_of),
    "partition_key_b64_encoded": ("partition-key-b64-encoded", _flag),
    "ordering_key": ("Base64-ordering-key", _base64),
    "schema_version": ("Base64-schema-version", _base64),
    "null_value": ("null-value", _flag),
    "compression": ("compression", _codec),
    "uncompressed_size": ("uncompressed-size", str),
    "replicated_from": ("replicated-from", text_of),
    "uuid": ("uuid", text_of),
    "num_chunks_from_msg": ("num-chunks-from-msg", str),
    "total_chunk_msg_size": ("total-chunk-msg-size", str),
    "chunk_id": ("chunk-id", str),
    "marker_type": ("marker-type", str),
}
"""What is shown of a message's metadata when it is set: the header's name after `X-Pulsar-`, and its form."""
