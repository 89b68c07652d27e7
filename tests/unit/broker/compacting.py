"""Keyed messages, compaction and its view, in the words of a test of the core."""

from typing import Any

from spark_pulsar.broker.message_lifetime import compaction
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries.compression import compress
from spark_pulsar.wire.entries.entry_bytes import build_entry, parse_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata, SingleMessageMetadata
from tests.unit.broker.world import TOPIC, Client, World, positions_of

_LARGEST_BATCH = 5


def keyed(key: str | None, value: str = "v", **fields: Any) -> bytes:
    """An entry of one message; with `fields` of its metadata."""
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **fields)
    if key is not None:
        metadata.partition_key = key
    return build_entry(metadata, value.encode())


def batch(*messages: tuple[str | None, str], codec: int = 0) -> bytes:
    """An entry that is a batch."""
    payload = b""
    for key, value in messages:
        single = SingleMessageMetadata(payload_size=len(value), partition_key=key)
        payload += single.ByteSize().to_bytes(4, "big") + single.SerializeToString() + value.encode()
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    metadata.num_messages_in_batch, metadata.uncompressed_size = len(messages), len(payload)
    if codec:
        metadata.compression = codec  # type: ignore[assignment]
    return build_entry(metadata, compress(codec, payload))  # type: ignore[arg-type]


def publish(client: Client, *entries: bytes, messages: int = 1) -> list[Position]:
    client.publish(1, *entries, messages=messages)
    return [position for _, position in client.receipts()]


def compact(world: World, topic: str = TOPIC) -> None:
    world.ask(lambda core: compaction.request(core, core.topics[topic]))


def status(world: World) -> str:
    return compaction.status(world.core, world.core.topics[TOPIC])[0]


def compacted_view(world: World, permits: int = 10_000, **more: Any) -> list[tuple[Position, list[str]]]:
    """Positions, and payloads of the messages that are there, as a reader of the compacted view gets them that asks for
    so many messages at a time."""
    client = world.connect()
    name = f"reader-{len(world.sessions)}"
    client.open_consumer(name, permits=permits, durable=False, read_compacted=True, **more)
    deliveries = client.deliveries()
    silent = 0
    while silent < _LARGEST_BATCH:  # after a batch some permits only make up for it
        client.send(requests.flow(1, permits))
        fresh = client.deliveries()
        silent = 0 if fresh else silent + 1
        deliveries += fresh
    client.close()
    texts: list[list[str]] = []
    for each in deliveries:
        for start, end in zip(each.starts, each.ends, strict=True):
            texts.append(contents(each.buffer[start:end]))
    return list(zip(positions_of(deliveries), texts, strict=True))


def contents(entry: bytes) -> list[str]:
    parsed = parse_entry(entry)
    payload = bytes(parsed.payload)
    if not parsed.metadata.HasField("num_messages_in_batch"):
        return [payload.decode()]
    found, at = [], 0
    for _ in range(parsed.metadata.num_messages_in_batch):
        size = int.from_bytes(payload[at : at + 4], "big")
        single = SingleMessageMetadata.FromString(payload[at + 4 : at + 4 + size])
        at += 4 + size + single.payload_size
        found.append("-" if single.compacted_out else payload[at - single.payload_size : at].decode())
    return found
