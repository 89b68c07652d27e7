"""Entries that producers send: one message or a batch of them, some with keys; some batches can be read."""

from __future__ import annotations

from random import Random
from typing import Final

from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.pulsar_api_pb2 import NONE, ZLIB, MessageMetadata

from .account import Item, Sent
from .actors import Producer
from .compaction import KEYS, packed
from .profile import Profile
from .sharing import STICKY_KEYS
from .transactions import TxnId

_NAMES_IT: Final = 0.8
"""Share of entries in transactions whose metadata name it; some clients name it in SEND alone."""
_DELAYS_MS: Final = (-5, 0, 1, 40, 40, 400, 400, 900, 1_500, 5_000, 70_000)


def new_entry(
    profile: Profile, random: Random, producer: Producer, now_ms: int, transaction: TxnId | None = None
) -> Sent:
    """The next entry of a producer, perhaps in a transaction; its bytes are unique."""
    count = random.randint(2, profile.batch) if random.random() < profile.batch_share else 1
    metadata = MessageMetadata(
        producer_name=producer.name,
        sequence_id=producer.next_sequence_id,
        publish_time=now_ms,
    )
    highest = None
    if count > 1:
        metadata.num_messages_in_batch = count
        highest = producer.next_sequence_id + count - 1
    payload = f"{producer.name}#{producer.sent}".encode().ljust(random.choice(profile.entry_bytes), b".")
    key = None
    if count == 1 and "compaction" in profile.features and random.random() < 0.8:
        key = metadata.partition_key = random.choice(KEYS)
        if random.random() < 0.2:  # the key's value is no more
            payload = b""
    items: tuple[Item, ...] = ()
    if count > 1 and "compaction" in profile.features and random.random() < 0.7:
        items = tuple(_item(random, payload) for _ in range(count))
        metadata.compression = random.choice((NONE, NONE, NONE, ZLIB))
        payload = packed(metadata, items)
    sticky_key = f"{producer.name}-{producer.next_sequence_id}" if key is None else key
    if "types" in profile.features and random.random() < 0.8:
        sticky_key = random.choice(STICKY_KEYS)
        if key is None and random.random() < 0.5 and "compaction" not in profile.features:
            metadata.partition_key = sticky_key
        else:
            metadata.ordering_key = sticky_key.encode()
    deliver_at_ms = 0
    if "delays" in profile.features and count == 1 and random.random() < 0.5:
        deliver_at_ms = metadata.deliver_at_time = now_ms + random.choice(_DELAYS_MS)
    is_readable = count > 1 and "compaction" in profile.features
    is_encrypted = bool(payload) and not is_readable and producer.encrypted_share > 0
    if is_encrypted and producer.encrypted_share < 1:
        is_encrypted = random.random() < producer.encrypted_share
    if is_encrypted:
        metadata.encryption_keys.add(key="k", value=b"v")
    if transaction is not None and random.random() < _NAMES_IT:
        metadata.txnid_most_bits, metadata.txnid_least_bits = transaction
    sent = Sent(
        producer.topic,
        producer.name,
        producer.sent,
        producer.next_sequence_id,
        count,
        now_ms,
        build_entry(metadata, payload),
        highest,
        key,
        sticky_key.encode(),
        deliver_at_ms,
        items,
        is_encrypted,
        transaction,
    )
    producer.sent += 1
    producer.next_sequence_id += count
    return sent


def _item(random: Random, payload: bytes) -> Item:
    key = random.choice((None, *KEYS, *KEYS))
    return Item(key, b"" if key is not None and random.random() < 0.2 else payload)
