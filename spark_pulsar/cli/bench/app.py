"""`spark-pulsar bench`: measurements by the official client for Python, as pulsar-perf makes them."""

from typing import Annotated, Final

import typer

from spark_pulsar.cli.access.decorator import with_broker_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.access.topics import Topic
from spark_pulsar.cli.frame.help import Commands, examples
from spark_pulsar.cli.output.formats import Output
from spark_pulsar.cli.values import MOST_COUNT, MOST_SECONDS, size_bytes, time_s

app = Commands(
    epilog=examples("bench produce orders --rate 5000 --time 30s", "bench consume orders"),
    name="bench",
    help="Rates and latencies, measured by the official client for Python: its limits are in the figures, too.",
)
MOST_QUEUED: Final = (1 << 31) - 1
"""Most that the official client counts of what waits."""
_MOST_BYTES: Final = 1 << 30
"""Most bytes of a message or a batch, far more than a broker takes."""
Messages = Annotated[
    int,
    typer.Option(
        "--messages", "-n", min=0, max=MOST_COUNT, help="End after this many messages; 0 = at Ctrl-C or after --time."
    ),
]
Time = Annotated[str | None, typer.Option("--time", metavar="TIME", help="End after 30s, 5m ….")]
Queue = Annotated[
    int, typer.Option("--queue", "-q", min=1, max=MOST_QUEUED, help="Messages that a receiver requests ahead.")
]


@app.command(
    epilog=examples(
        "bench produce orders --rate 5000 --size 512 --time 30s",
        "bench produce orders -n 1000000 --compression lz4 -o json",
    )
)
@with_broker_access
def produce(
    topic: Topic,
    messages: Messages = 0,
    time: Time = None,
    rate: Annotated[
        float, typer.Option("--rate", "-r", min=0, max=MOST_COUNT, help="Messages a second, of all; 0 = no limit.")
    ] = 0,
    size: Annotated[str, typer.Option("--size", "-s", help="Bytes of a message: 100, 1K, 1M.")] = "1K",
    producers: Annotated[
        int, typer.Option("--producers", "--threads", min=1, max=256, help="Producers, a thread each.")
    ] = 1,
    batching: Annotated[bool, typer.Option(help="Messages travel in batches.")] = True,
    batch_messages: Annotated[int, typer.Option(min=1, max=MOST_QUEUED, help="Most messages of a batch.")] = 1000,
    batch_size: Annotated[str, typer.Option(help="Most bytes of a batch.")] = "128K",
    batch_delay_ms: Annotated[int, typer.Option(min=1, max=MOST_QUEUED, help="Longest wait for a batch to fill.")] = 1,
    max_pending: Annotated[
        int, typer.Option(min=1, max=MOST_QUEUED, help="Messages without receipt, of a producer.")
    ] = 1000,
    compression: Annotated[str, typer.Option(help="none, lz4, zlib, zstd or snappy.")] = "none",
    output: Output = None,
    *,
    access: AccessOptions,
) -> None:
    """Send messages of random bytes; latency is from sending to the receipt."""
    from spark_pulsar.cli.bench.producing import Load, bench_produce
    from spark_pulsar.cli.bench.running import Length

    load = Load(
        size=_size(0, size, "--size"),
        rate=rate,
        producers=producers,
        is_batched=batching,
        batch_messages=batch_messages,
        batch_bytes=_size(1, batch_size, "--batch-size"),
        batch_delay_ms=batch_delay_ms,
        max_pending=max_pending,
        compression=compression,
    )
    bench_produce(access, topic, load, Length(messages, _seconds(time)), output)


@app.command(epilog=examples("bench consume orders", "bench consume orders --type Shared --consumers 4 --time 1m"))
@with_broker_access
def consume(
    topic: Topic,
    messages: Messages = 0,
    time: Time = None,
    subscription: Annotated[
        str | None,
        typer.Option("--subscription", "-s", help="Its name; without one it is made up, and removed at the end."),
    ] = None,
    kind: Annotated[str, typer.Option("--type", "-t", help="Exclusive, Shared, Failover or Key_Shared.")] = "Exclusive",
    initial_position: Annotated[
        str, typer.Option(help="Where a new subscription starts: latest or earliest.")
    ] = "latest",
    consumers: Annotated[
        int, typer.Option("--consumers", "--threads", min=1, max=256, help="Consumers, a thread each.")
    ] = 1,
    queue: Queue = 1000,
    output: Output = None,
    *,
    access: AccessOptions,
) -> None:
    """Receive and acknowledge messages; latency is end to end, from publish time to arrival, in whole milliseconds."""
    from spark_pulsar.cli.bench.receiving import Receiving, bench_consume
    from spark_pulsar.cli.bench.running import Length

    wanted = Receiving(
        subscription=subscription, kind=kind, initial_position=initial_position, consumers=consumers, queue=queue
    )
    bench_consume(access, topic, wanted, Length(messages, _seconds(time)), output)


@app.command(epilog=examples("bench read orders", "bench read orders --from latest --time 30s -o json"))
@with_broker_access
def read(
    topic: Topic,
    messages: Messages = 0,
    time: Time = None,
    first: Annotated[
        str, typer.Option("--from", help="earliest: the backlog, to its end; latest: what comes, with latencies.")
    ] = "earliest",
    queue: Queue = 1000,
    output: Output = None,
    *,
    access: AccessOptions,
) -> None:
    """Read messages without a subscription."""
    from spark_pulsar.cli.bench.receiving import bench_read
    from spark_pulsar.cli.bench.running import Length

    bench_read(access, topic, first, queue, Length(messages, _seconds(time)), output)


def _seconds(text: str | None) -> int:
    seconds = 0 if text is None else time_s(text)
    if not 0 <= seconds <= MOST_SECONDS:
        raise typer.BadParameter(f"want a time such as 30s, got {text!r}", param_hint="--time")
    return seconds


def _size(least: int, text: str, option: str) -> int:
    size = size_bytes(text)
    if not least <= size <= _MOST_BYTES:
        raise typer.BadParameter(f"want {least} to {_MOST_BYTES} bytes, got {text!r}", param_hint=option)
    return size
