"""Time to live of entries that a compacted ledger holds."""

import pytest

from spark_pulsar.broker.subscriptions import cursor_moves
from spark_pulsar.wire.entries.entry_bytes import build_entry
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.unit.broker.compacting import compact
from tests.unit.broker.message_lifetime.test_ttl import HOUR_MS, expire
from tests.unit.broker.world import QUIET, TOPIC, World


@pytest.mark.parametrize("permits", [1, 10])
@pytest.mark.parametrize("trims", [False, True], ids=["there", "trimmed"])
def test_what_is_expired_is_not_delivered_from_the_compacted_view_either(permits: int, *, trims: bool) -> None:
    # covers TTL-1, TTL-2 (better), CMP-C4
    world = World(**QUIET, ledger_max_entries=2, ledger_min_age_ms=-1)
    client = world.connect()
    client.open_consumer("keep", permits=0)
    client.open_producer(name=None)
    times = {"a": world.now_ms, "b": world.now_ms + HOUR_MS, "c": world.now_ms, "d": world.now_ms + HOUR_MS}
    times["e"] = times["b"]
    for key, time_ms in times.items():
        metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=time_ms, partition_key=key)
        client.publish(1, build_entry(metadata, key.encode()))
    compact(world)
    if trims:
        world.ask(lambda core: cursor_moves.clear_backlog(core, core.topics[TOPIC].subscriptions["keep"]))
        assert world.state.topics_by_name[TOPIC].ledger.ledger_ids() == [3]
    world.advance(HOUR_MS // 2)
    expire(world, 60)
    for is_durable, expected in ((True, ["b", "d", "e"]), (False, [*times])):
        late = world.connect()
        late.open_consumer("late" if is_durable else "reader", permits=permits, read_compacted=True, durable=is_durable)
        seen = late.messages()
        for _ in times:
            late.send(requests.flow(1, 1))
            seen += late.messages()
        assert seen == expected
