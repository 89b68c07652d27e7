"""Arrow arrays of the metadata that a read yields on request, one function per column as in `arrays`."""

import base64
import json
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.model.letters import RECONSUME_TIMES
from spark_pulsar.wire.columns import arrays
from spark_pulsar.wire.columns.entries import IntArray, raise_for
from spark_pulsar.wire.columns.kernels import layout
from spark_pulsar.wire.columns.kernels.column_kernels import micros_of
from spark_pulsar.wire.columns.kernels.metadata_kernels import find_ordering_keys, read_broker_metadata
from spark_pulsar.wire.columns.rows import Rows
from spark_pulsar.wire.pulsar_api_pb2 import CompressionType, MessageMetadata

_COUNT: Final = r"\A[0-9]{1,9}\z"
"""A count in a property that may be taken for one."""


def _per_row(rows: Rows, values: IntArray) -> IntArray:
    """Gives each row the value of its entry."""
    per_row: IntArray = values[rows.field(layout.ROW_ENTRY)]
    return per_row


def ordering_key_array(rows: Rows) -> Any:
    """Returns the ordering key of each message; null without."""
    starts, lengths = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    code, row = find_ordering_keys(
        rows.data,
        rows.field(layout.ROW_BATCH_INDEX),
        rows.field(layout.ROW_METADATA_START),
        rows.field(layout.ROW_METADATA_END),
        starts,
        lengths,
    )
    if code < 0:
        rows.refuse(row, code)
    return arrays.bytes_array(rows, starts, lengths, pa.binary())


def producer_name_array(rows: Rows) -> Any:
    """Returns the name of each message's producer."""
    starts, lengths = (
        _per_row(rows, rows.table.field(field)) for field in (layout.PRODUCER_START, layout.PRODUCER_LENGTH)
    )
    return arrays.bytes_array(rows, starts, lengths, pa.string())


def sequence_id_array(rows: Rows) -> Any:
    """Returns the sequence id that each message's producer gave it."""
    return arrays.fixed_array(pa.int64(), rows.field(layout.ROW_SEQUENCE_ID))


def schema_version_array(rows: Rows) -> Any:
    """Returns the schema version of each message; null without."""
    versions = arrays.schema_versions(rows)
    return arrays.fixed_array(pa.int64(), versions, versions != arrays.NO_SCHEMA_VERSION)


def redelivery_count_array(rows: Rows) -> Any:
    """Returns the retries that each message had, as its property `RECONSUMETIMES` says; 0 without, and for any other
    text than a number."""
    texts = pc.map_lookup(arrays.properties_array(rows), RECONSUME_TIMES, "last")
    counts = pc.if_else(pc.match_substring_regex(texts, _COUNT), texts, None)
    return pc.fill_null(pc.cast(counts, pa.int32()), 0)


def ledger_id_array(rows: Rows) -> Any:
    """Returns the ledger of each message."""
    return arrays.fixed_array(pa.int64(), _per_row(rows, rows.table.entries.ids[0]))


def entry_id_array(rows: Rows) -> Any:
    """Returns the entry of each message, the last one of a chunked message."""
    return arrays.fixed_array(pa.int64(), _per_row(rows, rows.table.entries.ids[1]))


def batch_index_array(rows: Rows) -> Any:
    """Returns the place of each message in its batch; null outside a batch."""
    indexes = rows.field(layout.ROW_BATCH_INDEX)
    return arrays.fixed_array(pa.int32(), indexes.astype(np.int32), indexes >= 0)


def partition_array(rows: Rows) -> Any:
    """Returns the partition of each message; null on a topic without partitions."""
    partitions = _per_row(rows, rows.table.entries.ids[2])
    return arrays.fixed_array(pa.int32(), partitions.astype(np.int32), partitions >= 0)


def broker_publish_time_array(rows: Rows) -> Any:
    """Returns the time at which the broker took each message, as UTC timestamps in microseconds; null where the broker
    keeps none."""
    times_ms = _per_row(rows, _broker_metadata(rows)[0])
    micros = np.empty(len(rows), np.int64)
    micros_of(times_ms, micros)
    return arrays.fixed_array(arrays.TIMESTAMP, micros, times_ms != layout.ABSENT)


def index_array(rows: Rows) -> Any:
    """Returns the index of each message in its topic partition, counted from 0; null where the broker keeps none. The
    broker's is that of the last message of an entry."""
    last = _per_row(rows, _broker_metadata(rows)[1])
    in_batch = rows.field(layout.ROW_BATCH_INDEX)
    behind = _per_row(rows, rows.table.field(layout.COUNT)) - 1 - in_batch
    return arrays.fixed_array(pa.int64(), np.where(in_batch < 0, last, last - behind), last != layout.ABSENT)


def _broker_metadata(rows: Rows) -> tuple[IntArray, IntArray]:
    entries = rows.table.entries
    times_ms, indexes = np.empty(len(entries), np.int64), np.empty(len(entries), np.int64)
    code, i = read_broker_metadata(entries.data, entries.starts, entries.ends, times_ms, indexes)
    if code < 0:
        raise_for(entries, i, code)
    return times_ms, indexes


def encryption_context_array(rows: Rows) -> Any:
    """Returns the encryption context of each message as JSON, with the members of the Java client's; null without.
    A consumer of encrypted bytes needs it to decrypt them itself."""
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
        key.key: {"keyValue": _base64(key.value), "metadata": {pair.key: pair.value for pair in key.metadata}}
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
