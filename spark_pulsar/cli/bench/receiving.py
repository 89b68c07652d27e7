"""`spark-pulsar bench consume` and `bench read`: messages as fast as they come.

Latency is end to end, from the producer's publish time to the arrival in this process: in whole milliseconds, and of
two clocks where the producer is on another machine. A backlog has none.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import typer

from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.bench.meter import Meter
from spark_pulsar.cli.bench.running import Length, Stop, run
from spark_pulsar.cli.messages.connecting import connected, official_client, queries
from spark_pulsar.cli.messages.consume import POSITIONS, TYPES, chosen
from spark_pulsar.cli.output.formats import Format

if TYPE_CHECKING:
    import pulsar

_STEP_MS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiving:
    """Consumers of a measurement. Without a name of a subscription, one is made up, and removed at the end."""

    subscription: str | None
    kind: str
    initial_position: str
    consumers: int
    queue: int


def bench_consume(access: AccessOptions, topic: str, wanted: Receiving, length: Length, output: Format | None) -> None:
    """Receives and acknowledges messages and prints rates and latencies."""
    pulsar = official_client()
    kind = chosen(TYPES, wanted.kind, "--type")
    position = chosen(POSITIONS, wanted.initial_position, "--initial-position")
    if kind == "Exclusive" and wanted.consumers > 1:
        raise typer.BadParameter("an Exclusive subscription has one consumer: --type Shared", param_hint="--consumers")
    name = wanted.subscription or f"bench-{secrets.token_hex(4)}"
    meter = Meter()
    with connected(access) as client:
        consumers = [
            client.subscribe(
                topic,
                name,
                consumer_type=getattr(pulsar.ConsumerType, kind),
                initial_position=getattr(pulsar.InitialPosition, position),
                receiver_queue_size=wanted.queue,
            )
            for _ in range(wanted.consumers)
        ]
        try:
            workers = [partial(_consume, consumer, meter, length.messages) for consumer in consumers]
            about = {"subscription": name, "type": kind, "consumers": wanted.consumers}
            run("consume", topic, meter, workers, length, output, **about)
        finally:
            for consumer in consumers[1:]:
                consumer.close()
            if wanted.subscription is None:
                with contextlib.suppress(pulsar.PulsarException):
                    consumers[0].unsubscribe()


def bench_read(
    access: AccessOptions, topic: str, first: str, queue: int, length: Length, output: Format | None
) -> None:
    """Reads messages and prints rates; from the earliest to the end of the topic, or the latest with latencies."""
    position = chosen({"earliest": "earliest", "latest": "latest"}, first, "--from")
    meter = Meter()
    with connected(access) as client:
        with queries(access) as questions:
            questions.last_message_ids(questions.partitions_of(topic))  # raises for a topic that a reader would create
        start = getattr(official_client().MessageId, position)
        reader = client.create_reader(topic, start, receiver_queue_size=queue)
        worker = partial(_read, reader, meter, length.messages, is_backlog=position == "earliest")
        run("read", topic, meter, [worker], length, output)
        reader.close()


def _consume(consumer: pulsar.Consumer, meter: Meter, total: int, stop: Stop) -> None:
    timeout = official_client().Timeout
    while not stop:
        try:
            message = consumer.receive(timeout_millis=_STEP_MS)
        except timeout:
            continue
        number = _count(meter, message)
        consumer.acknowledge(message)
        if total and number >= total:
            stop.set()


def _read(reader: pulsar.Reader, meter: Meter, total: int, stop: Stop, *, is_backlog: bool) -> None:
    timeout = official_client().Timeout
    while not stop:
        try:
            message = reader.read_next(timeout_millis=_STEP_MS)
        except timeout:
            if is_backlog and not reader.has_message_available():
                return
            continue
        number = meter.add(len(message.data()), None) if is_backlog else _count(meter, message)
        if number == total:
            return


def _count(meter: Meter, message: Any) -> int:
    now_ms = time.time_ns() // 1_000_000
    return meter.add(len(message.data()), (now_ms - message.publish_timestamp()) * 1000)
