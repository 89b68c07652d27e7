"""Key_Shared consumers and keyed messages, in the words of a test of the core."""

from typing import Any

from spark_pulsar.broker.turn import effects as fx
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.entries.entry_bytes import build_entry, parse_entry
from spark_pulsar.wire.keys.murmur3 import murmur3_32
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandSubscribe, MessageMetadata
from tests.unit.broker.world import START_MS, TOPIC, Client, World, positions_of

KEY_SHARED = CommandSubscribe.Key_Shared


def keyed(key: str | None, text: str = "", **fields: Any) -> bytes:
    """An entry with a key and a payload."""
    described = {"producer_name": "p", "sequence_id": 0, "publish_time": START_MS} | fields
    metadata = MessageMetadata(**described)
    if key is not None:
        metadata.partition_key = key
    return build_entry(metadata, text.encode())


def subscribe(
    name: str,
    consumer_id: int = 1,
    ranges: list[tuple[int, int]] | None = None,
    *,
    any_order: bool = False,
    request_id: int = 1,
) -> BaseCommand:
    """SUBSCRIBE from the earliest entry on; STICKY when there are ranges."""
    command = requests.subscribe(
        request_id, TOPIC, "s", consumer_id, KEY_SHARED, initial_position=1, consumer_name=name
    )
    meta = command.subscribe.keySharedMeta
    meta.keySharedMode = 0 if ranges is None else 1  # type: ignore[assignment]
    meta.allowOutOfOrderDelivery = any_order
    for start, end in ranges or ():
        meta.hashRanges.add(start=start, end=end)
    return command


def join(client: Client, name: str, consumer_id: int = 1, *, permits: int = 100, **more: Any) -> None:
    """A consumer, with permits."""
    client.send(subscribe(name, consumer_id, **more))
    answers = [each for each in client.effects if isinstance(each, fx.SendCommand)]
    assert answers[-1].command.type == BaseCommand.SUCCESS, answers
    client.effects.remove(answers[-1])
    if permits:
        client.send(requests.flow(consumer_id, permits))


def publish(client: Client, *entries: bytes, messages: int = 1) -> None:
    client.publish(1, *entries, messages=messages)
    client.effects = [each for each in client.effects if not isinstance(each, fx.SendReceipts)]


def got(client: Client) -> list[str]:
    """Payloads of what came; nothing else may have come."""
    return [
        bytes(parse_entry(each.buffer, start, end).payload).decode()
        for each in client.deliveries()
        for start, end in zip(each.starts, each.ends, strict=True)
    ]


def places(client: Client) -> list[Position]:
    return positions_of(client.deliveries())


def dispatcher(world: World) -> Any:
    """The KeySharedDispatcher of the subscription."""
    return world.subscription().dispatcher


def owner(world: World, key: str) -> str:
    """The name of the consumer that gets a key now."""
    selector = dispatcher(world).selector
    found = selector.owner(selector.sticky_hash_of(murmur3_32(key.encode())))
    return str(found.name)


def keys_of(world: World, name: str, count: int = 3) -> list[str]:
    """Some keys that a consumer gets now."""
    found = [key for key in (f"key-{number}" for number in range(2_000)) if owner(world, key) == name]
    return found[:count]
