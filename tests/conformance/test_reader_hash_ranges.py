"""Readers and Exclusive consumers that name hash ranges, as `keyHashRange` of the Java client does."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.brokers import Broker, topic_path

KEYS = [f"k{number}" for number in range(20)]
LOWER, UPPER = (0, 32_767), (32_768, 65_535)


def _sent(broker: Broker, topic: str) -> None:
    raw = broker.raw()
    raw.request("LOOKUP", topic=topic)
    assert raw.request("PRODUCER", topic=topic, producer_id=1, producer_name="p").type == "PRODUCER_SUCCESS"
    for number, key in enumerate(KEYS):
        metadata = {"partition_key": key, "uncompressed_size": len(key)}
        raw.send_message(1, number, key.encode(), metadata=metadata)
        raw.expect("SEND_RECEIPT")


_numbers = itertools.count()


def _read(broker: Broker, topic: str, *ranges: tuple[int, int], permits: int = 1000, **more: Any) -> list[str]:
    """Keys that a consumer gets from the beginning on."""
    raw = broker.raw()
    raw.request("LOOKUP", topic=topic)
    meta = {"keySharedMode": "STICKY", "hashRanges": [{"start": start, "end": end} for start, end in ranges]}
    fields = {"subType": "Exclusive", "durable": False, "initialPosition": "Earliest", "keySharedMeta": meta}
    name = f"s-{next(_numbers)}"  # Apache Pulsar fences one for a moment whose last consumer has just gone
    answer = raw.request("SUBSCRIBE", topic=topic, subscription=name, consumer_id=1, **(fields | more))
    assert answer.type == "SUCCESS", answer
    found: list[str] = []
    raw.send("FLOW", consumer_id=1, messagePermits=permits)
    quiet_s = 1.0 if more.get("subType") == "Failover" else 0.5  # its first consumer waits before it is active
    while (frame := raw.next_frame(quiet_s)) is not None:
        if frame.type == "MESSAGE":
            assert frame.payload is not None
            found.append(frame.payload.decode())
    raw.close()
    return found


def test_each_reader_gets_its_half(broker: Broker) -> None:
    # covers RD-6
    topic = broker.topic()
    _sent(broker, topic)
    lower, upper = _read(broker, topic, LOWER), _read(broker, topic, UPPER)
    assert lower
    assert upper
    assert sorted(lower + upper) == sorted(KEYS)
    assert lower == [key for key in KEYS if key in lower]
    assert _read(broker, topic, LOWER, UPPER) == KEYS
    assert _read(broker, topic, (5, 0)) == []
    assert _read(broker, topic) == KEYS


def test_what_is_not_wanted_costs_no_permit(broker: Broker) -> None:
    # covers RD-6
    topic = broker.topic()
    _sent(broker, topic)
    upper = _read(broker, topic, UPPER)
    assert _read(broker, topic, UPPER, permits=3) == upper[:3]
    assert _read(broker, topic, UPPER, permits=len(upper)) == upper


@pytest.mark.parametrize(
    ("more", "is_filtered"),
    [({"durable": True}, True), ({"read_compacted": True}, True), ({"subType": "Failover", "durable": True}, False)],
    ids=["durable", "compacted", "failover"],
)
def test_who_names_ranges(broker: Broker, more: dict[str, Any], is_filtered: bool) -> None:
    # covers RD-6
    topic = broker.topic()
    _sent(broker, topic)
    expected = _read(broker, topic, LOWER) if is_filtered else KEYS
    if more.get("read_compacted"):
        assert broker.rest("PUT", f"{topic_path(topic)}/compaction")[0] == 204
    assert _read(broker, topic, LOWER, **more) == expected
