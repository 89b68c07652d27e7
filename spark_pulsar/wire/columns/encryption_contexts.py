"""The column of encryption contexts: what a consumer of encrypted bytes needs to decrypt them itself."""

import base64
import json
from typing import Any

import numpy as np
import pyarrow as pa

from spark_pulsar.wire.columns.kernels import layout
from spark_pulsar.wire.columns.rows import Rows
from spark_pulsar.wire.pulsar_api_pb2 import CompressionType, MessageMetadata


def encryption_context_array(rows: Rows) -> Any:
    """Returns the encryption context of each message as JSON, with the members of the Java client's; null without."""
    entries = rows.field(layout.ROW_ENTRY)
    was_encrypted = rows.table.field(layout.ENCRYPTION_KEYS)[entries] != 0
    if not was_encrypted.any():
        return pa.nulls(len(rows), pa.string())
    distinct, inverse = np.unique(entries, return_inverse=True)
    counts = rows.table.field(layout.ENCRYPTION_KEYS)
    texts = [_context(bytes(rows.table.metadata(i))) if counts[i] else None for i in distinct.tolist()]
    return pa.array(texts, pa.string()).take(pa.array(inverse.reshape(-1)))


def _context(data: bytes) -> str:
    metadata = MessageMetadata.FromString(data)
    keys = {
        key.key: {"keyValue": _base64(key.value), "metadata": {each.key: each.value for each in key.metadata}}
        for key in metadata.encryption_keys
    }
    return json.dumps(
        {
            "keys": keys,
            "param": _base64(metadata.encryption_param),
            "algorithm": metadata.encryption_algo or None,
            "compressionType": CompressionType.Name(metadata.compression),
            "uncompressedMessageSize": metadata.uncompressed_size,
            "batchSize": metadata.num_messages_in_batch if metadata.HasField("num_messages_in_batch") else None,
        }
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
