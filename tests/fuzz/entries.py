"""Entries as producers send them, and as none should: batches, chunks, compressed, encrypted, delayed."""

from __future__ import annotations

import struct
import zlib
from random import Random
from typing import Final

from crc32c import crc32c

from spark_pulsar.wire import pulsar_api_pb2 as api
from tests.fuzz import values
from tests.fuzz.trees import encoded, mutate, tree_of
from tests.raw import batch_payload

_COUNTS: Final = (-(2**31), -1, 0, 1, 2, 10, 1_000, 65_536, 2**31 - 1)
_TIMES_MS: Final = (0, 1, 1_700_000_000_000, 4_000_000_000_000, 2**62, 2**63 - 1, 2**64 - 1)


def entry(choices: Random, sequence_id: int, damage: float) -> bytes:
    """Draws what follows the command in a SEND; with probability `damage` something in it is wrong."""
    metadata, payload = _described(choices, sequence_id)
    fields = tree_of(metadata)
    if choices.random() < damage:
        for _ in range(choices.choice((1, 1, 2, 4))):
            mutate(choices, fields, api.MessageMetadata.DESCRIPTOR)
    data = encoded(fields)
    size = len(data)
    if choices.random() < damage / 4:
        size = choices.choice(
            (0, 1, size - 1, size + 1, size + len(payload), size + len(payload) + 1, 2**31, 2**32 - 1)
        )
    covered = struct.pack(">I", max(0, size)) + data + payload
    return _framed(choices, covered, damage)


def _framed(choices: Random, covered: bytes, damage: float) -> bytes:
    kind = choices.random()
    if kind < 0.15:
        return covered  # without a checksum
    crc = crc32c(covered)
    if choices.random() < damage / 4:
        crc ^= 1 << choices.randrange(32)
    framed = struct.pack(">HI", 0x0E01, crc) + covered
    if kind < 0.2:
        broker_entry = api.BrokerEntryMetadata(broker_timestamp=1, index=choices.choice((0, 2**63)))
        head = broker_entry.SerializeToString()
        framed = struct.pack(">HI", 0x0E02, choices.choice((len(head), 0, 2**32 - 1))) + head + framed
    if choices.random() < damage / 6:
        framed = framed[: choices.randrange(len(framed) + 1)]
    return framed


def _described(choices: Random, sequence_id: int) -> tuple[api.MessageMetadata, bytes]:
    metadata = api.MessageMetadata(producer_name="p", sequence_id=sequence_id, publish_time=1_700_000_000_000)
    payload = choices.randbytes(choices.choice((0, 1, 10, 100, 5_000)))
    kind = (
        "plain"
        if choices.random() < 0.3
        else choices.choice(
            ("plain", "batch", "compressed", "chunk", "encrypted", "delayed", "keyed", "marker", "counts")
        )
    )
    if kind == "batch":
        count = choices.choice((1, 2, 10, 500))
        payload = batch_payload([b"v%d" % index for index in range(count)], sequence_id)
        metadata.num_messages_in_batch = count if choices.random() < 0.7 else choices.choice(_COUNTS)
        metadata.highest_sequence_id = sequence_id + count - 1
    if kind == "compressed" or (kind == "batch" and choices.random() < 0.5):
        metadata.uncompressed_size = choices.choice((len(payload), len(payload), 0, 1, 2**31, 2**32 - 1))
        metadata.compression = choices.choice((api.LZ4, api.ZLIB, api.ZSTD, api.SNAPPY))
        payload = zlib.compress(payload) if metadata.compression == api.ZLIB else payload
    elif kind == "chunk":
        metadata.uuid = choices.choice(("u1", "u2", "", "u" * 1_000))
        metadata.num_chunks_from_msg = choices.choice((1, 2, 3, *_COUNTS))
        metadata.chunk_id = choices.choice((0, 1, 2, *_COUNTS))
        metadata.total_chunk_msg_size = choices.choice((len(payload) * 2, *_COUNTS))
    elif kind == "encrypted":
        metadata.encryption_keys.add(key="k", value=values.octets(choices)[:100])
        metadata.encryption_algo, metadata.encryption_param = "", b"123456789012"
    elif kind == "delayed":
        metadata.deliver_at_time = choices.choice((-(2**63), -1, 0, 4_000_000_000_000, 2**63 - 1))
        metadata.event_time = choices.choice(_TIMES_MS)
        metadata.publish_time = choices.choice(_TIMES_MS)
    elif kind == "keyed":
        metadata.partition_key = choices.choice(("k1", "k2", "", "k" * 2_000, "a\r\nX: y", "\0", " k "))
        metadata.partition_key_b64_encoded = choices.random() < 0.3
        metadata.ordering_key = values.octets(choices)[:200]
        metadata.null_value = choices.random() < 0.3
        metadata.properties.add(key="k", value="v" * choices.choice((0, 1, 3_000)))
    elif kind == "marker":
        metadata.marker_type = choices.choice((0, 10, 20, 22, -1))
        metadata.replicated_from = "elsewhere"
    elif kind == "counts":
        metadata.num_messages_in_batch = choices.choice(_COUNTS)
        metadata.sequence_id = values.integer(choices)
        metadata.compacted_batch_indexes.extend([choices.choice(_COUNTS)] * choices.choice((0, 1, 1_000)))
        metadata.entry_hash_min, metadata.entry_hash_max = 2**32 - 1, 0
    return metadata, payload
