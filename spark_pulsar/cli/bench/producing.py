"""`spark-pulsar bench produce`: messages as fast as they are stored, or at a rate; latency from sending to receipt."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.bench.meter import Meter
from spark_pulsar.cli.bench.pace import Pace
from spark_pulsar.cli.bench.running import Length, Stop, run
from spark_pulsar.cli.messages.connecting import connected, official_client
from spark_pulsar.cli.messages.consume import chosen
from spark_pulsar.cli.messages.produce import COMPRESSIONS
from spark_pulsar.cli.output.formats import Format

if TYPE_CHECKING:
    import pulsar


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Messages to be sent, and how producers batch them."""

    size: int
    rate: float
    producers: int
    is_batched: bool
    batch_messages: int
    batch_bytes: int
    batch_delay_ms: int
    max_pending: int
    compression: str


def bench_produce(access: AccessOptions, topic: str, load: Load, length: Length, output: Format | None) -> None:
    """Sends messages of random bytes and prints rates and latencies."""
    settings = _settings(load)
    meter = Meter()
    payload = os.urandom(load.size)
    with connected(access) as client:
        producers = [client.create_producer(topic, **settings) for _ in range(load.producers)]
        share, more = divmod(length.messages, load.producers)
        workers = [
            partial(_send, producer, payload, load.rate / load.producers, share + (at < more), length.messages, meter)
            for at, producer in enumerate(producers)
        ]
        about = {"size": load.size, "rate": load.rate, "producers": load.producers}
        run("produce", topic, meter, workers, length, output, **about)


def _settings(load: Load) -> dict[str, Any]:
    pulsar = official_client()
    return {
        "block_if_queue_full": True,
        "max_pending_messages": load.max_pending,
        "batching_enabled": load.is_batched,
        "batching_max_messages": load.batch_messages,
        "batching_max_allowed_size_in_bytes": load.batch_bytes,
        "batching_max_publish_delay_ms": load.batch_delay_ms,
        "compression_type": getattr(pulsar.CompressionType, chosen(COMPRESSIONS, load.compression, "--compression")),
    }


def _send(
    producer: pulsar.Producer, payload: bytes, rate: float, share: int, total: int, meter: Meter, stop: Stop
) -> None:
    """Sends this producer's share of all messages; without a total, until the measurement ends."""
    pace = Pace(rate)
    size = len(payload)
    sent = 0
    while not stop and (not total or sent < share):
        portion = pace.next_portion()
        if total:
            portion = min(portion, share - sent)
        for _ in range(portion):
            producer.send_async(payload, partial(meter.on_receipt, size, time.perf_counter_ns()))
            if stop:
                break
        sent += portion
    try:
        producer.flush()
    except official_client().PulsarException:
        return  # each message that failed has reported it
