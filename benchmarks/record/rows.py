"""The rows of the table in `docs/benchmarks.md`: the one declaration of what is measured, and of the goals.

A figure is named as the command stores it by `--json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PULSAR: Final = "--against apache-pulsar=4.2.4"
PULSAR_5: Final = "--against apache-pulsar=5.0.0-M1"


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound of our figure, or of its ratio to the peer's."""

    at_least: bool
    bound: float
    of_ratio: bool

    @property
    def text(self) -> str:
        """The bound for people."""
        number = f"{self.bound / 1e6:g} M" if self.bound >= 1e6 else f"{self.bound:.3g}"
        return f"{'≥' if self.at_least else '≤'} {number}{' ×' if self.of_ratio else ''}"

    def is_met_by(self, value: float) -> bool:
        """Returns whether a figure, or a ratio, is within the bound."""
        return value >= self.bound if self.at_least else value <= self.bound


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Attributes:
        group: Line of the table above the row and its neighbours.
        name: Name in `results.json`, for good.
        figure: What is measured, in a few words.
        unit: Unit of both figures; empty where `figure` says it.
        command: Command that measures it, after `python benchmarks/`.
        ours: Name of our figure.
        peer: Name of the peer's figure; empty when there is none.
        against: The peer in a few words, where it is no other broker, whose name and version the command stores.
        goal: Bound that our figure or the ratio is to keep, or None.
    """

    group: str
    name: str
    figure: str
    unit: str
    command: str
    ours: str
    peer: str = ""
    against: str = ""
    goal: Goal | None = None


def at_least(bound: float) -> Goal:
    """A least figure of ours."""
    return Goal(True, bound, of_ratio=False)


def at_most(bound: float) -> Goal:
    """A greatest figure of ours."""
    return Goal(False, bound, of_ratio=False)


def times_at_least(bound: float) -> Goal:
    """A least ratio of ours to the peer's."""
    return Goal(True, bound, of_ratio=True)


def times_at_most(bound: float) -> Goal:
    """A greatest ratio of ours to the peer's."""
    return Goal(False, bound, of_ratio=True)


_PUBLISH = f"broker.py --only unbatched unbatched-1kb topics {PULSAR}"
_BATCHES = f"broker.py --only batches --rounds 5 {PULSAR}"
_LATENCY = f"broker.py --only latency end-to-end {PULSAR}"
_CONSUME = f"broker.py --only consume-unbatched consume-batches dispatch-batches {PULSAR}"
_SHARE = f"broker.py --only shared key-shared consume-exclusive consume-failover {PULSAR}"
_FRESH = f"broker.py --only process idle-consumers {PULSAR}"
_SECURED = "broker.py --secured"
_S = "a second"


def _pulsar(name: str, figure: str, unit: str, command: str, stored: str, goal: Goal | None = None) -> Row:
    return Row("Broker", name, figure, unit, command, f"ours: {stored}", f"apache-pulsar: {stored}", goal=goal)


def _own(name: str, figure: str, unit: str, command: str, ours: str, peer: str, against: str, goal: Goal) -> Row:
    return Row("Broker", name, figure, unit, command, f"ours: {ours}", f"ours: {peer}", against, goal)


_BROKER = (
    _pulsar("unbatched", "single messages of 100 B", _S, _PUBLISH, "unbatched", times_at_least(1)),
    _pulsar("unbatched-1kb", "single messages of 1 KB", _S, _PUBLISH, "unbatched-1kb", times_at_least(3.5)),
    _own("topics", "1,000 topics in turn", _S, _PUBLISH, "topics", "unbatched", "one topic", times_at_least(0.9)),
    _pulsar("batches", "messages in batches of 100 × 100 B", _S, _BATCHES, "batches", times_at_least(2.5)),
    _pulsar("latency-p50", "synchronous publish, p50", "ms", _LATENCY, "latency p50", times_at_most(1 / 8)),
    _pulsar("latency-p99", "synchronous publish, p99", "ms", _LATENCY, "latency p99", times_at_most(1 / 7)),
    _pulsar("end-to-end-p50", "end to end at 5,000/s, p50", "ms", _LATENCY, "end-to-end p50", at_most(2)),
    _pulsar("end-to-end-p99", "end to end at 5,000/s, p99", "ms", _LATENCY, "end-to-end p99", at_most(10)),
    _pulsar("consume-unbatched", "consuming single messages", _S, _CONSUME, "consume-unbatched", times_at_least(5)),
    _pulsar("consume-batches", "consuming batches, messages", _S, _CONSUME, "consume-batches", times_at_least(4)),
    _pulsar("dispatch-batches", "dispatching batches, messages", _S, _CONSUME, "dispatch-batches", times_at_least(6)),
    _pulsar("shared", "Shared, 10 consumers, single messages", _S, _SHARE, "shared", times_at_least(5)),
    _own("key-shared", "Key_Shared, 10 consumers", _S, _SHARE, "key-shared", "shared", "Shared", times_at_least(0.9)),
    _own("exclusive", "Exclusive, 1 consumer", _S, _SHARE, "consume-exclusive", "shared", "Shared", times_at_least(1)),
    _own("failover", "Failover, 1 consumer", _S, _SHARE, "consume-failover", "shared", "Shared", times_at_least(1)),
    _pulsar(
        "showcase",
        "500 publishers, keyed, 128 B, 20 Key_Shared consumers",
        _S,
        f"broker.py --only showcase {PULSAR_5}",
        "showcase",
        times_at_least(2),
    ),
    _pulsar("start", "start to ready", "s", _FRESH, "start to ready, s", at_most(1)),
    _pulsar("idle-memory", "idle memory", "MB", _FRESH, "idle memory, MB", at_most(80)),
    _pulsar("idle-consumers", "1,000 idle consumers", "MB", _FRESH, "1,000 idle consumers, MB", at_most(10)),
)

_TLS = (
    Row(
        "Broker",
        f"secured-{name}",
        f"TLS and a token: {figure}",
        unit,
        _SECURED,
        f"ours, secured: {stored}",
        f"ours: {stored}",
        "without",
        goal,
    )
    for name, figure, unit, stored, goal in (
        ("unbatched", "single messages", _S, "unbatched", times_at_least(0.65)),
        ("batches", "batches, messages", _S, "batches", times_at_least(0.65)),
        ("latency-p99", "synchronous p99", "ms", "latency p99", at_most(2)),
    )
)

_TRANSACTIONS = f"transactions.py {PULSAR}"
_COMPACTION = f"compaction.py --messages 200000 --keys 50000 {PULSAR}"
_TRANSACTION_ROWS = (
    _pulsar(
        "transactions",
        "transactions of 100 × 100 B, messages",
        _S,
        _TRANSACTIONS,
        "throughput, messages/s",
        times_at_least(4),
    ),
    _pulsar("commit-p50", "commit, 20 a second, p50", "ms", _TRANSACTIONS, "commit p50, ms", times_at_most(0.5)),
    _pulsar("compaction-single", "compacting single messages", _S, _COMPACTION, "single, messages/s"),
    _pulsar("compaction-batches", "compacting batches, messages", _S, _COMPACTION, "in batches, messages/s"),
)


def _storage(
    name: str, figure: str, unit: str, only: str, ours: str, goal: Goal | None = None, peer: str = "", against: str = ""
) -> Row:
    return Row("Storage", name, figure, unit, f"storage.py --only {only}", ours, peer, against, goal)


_STORAGE = (
    _storage(
        "runs-of-ten",
        "1,000 of 10,000 topics in runs of ten",
        _S,
        "topics",
        "in runs, messages a second",
        times_at_least(0.7),
        "one topic, messages a second",
        "one topic",
    ),
    _storage(
        "restart-topics",
        "100,000 topics: ready after a kill",
        "s",
        "restart",
        "topics, after a kill: start to ready, s",
        at_most(5),
    ),
    _storage(
        "restart-topics-memory",
        "100,000 topics: memory",
        "MB",
        "restart",
        "topics, after a kill: memory, MB",
        at_most(400),
    ),
    _storage(
        "backlog-kill",
        "10 M entries: ready after a kill",
        "s",
        "backlog",
        "after a kill: start to ready, s",
        at_most(5),
    ),
    _storage(
        "settling",
        "paced publisher while settling, p50",
        "ms",
        "settling",
        "paced while settling: p50, ms",
        None,
        "paced in a calm broker: p50, ms",
        "calm",
    ),
    _storage(
        "written-queue",
        "bytes written a byte, queue",
        "",
        "written",
        "written for each byte, a queue after the first half",
        at_most(1.3),
    ),
    _storage(
        "written-kept",
        "bytes written a byte, full retention",
        "",
        "written",
        "written for each byte, full retention",
        at_most(2.3),
    ),
    Row(
        "Storage",
        "holes-ack",
        "one more ack among a million holes",
        "µs",
        "cursor.py",
        "one more ack among 1,000,000 holes, us",
        "one more ack among 1,000 holes, us",
        "among 1,000",
        times_at_most(2),
    ),
    Row(
        "Storage",
        "holes-kill",
        "a million holes: ready after a kill",
        "s",
        "cursor.py",
        "ready after a kill, s",
        goal=at_most(5),
    ),
    Row("Storage", "delayed-memory", "a million delayed messages", "MB", "delayed.py", "all delayed: more memory, MB"),
    Row(
        "Storage",
        "delayed-kill",
        "a million delayed: ready after a kill",
        "s",
        "delayed.py",
        "all delayed: ready after a kill, s",
        "none delayed: ready after a kill, s",
        "none delayed",
    ),
)

_CANARY = "canary.py --seconds 2"
_LOAD = (
    Row(
        "Under load",
        "canary-p99",
        "canary beside 25 costly requests, highest p99",
        "ms",
        _CANARY,
        "highest p99, ms",
        "alone: p99, ms",
        "alone",
        at_most(50),
    ),
    Row(
        "Under load",
        "canary-longest",
        "canary beside them, longest",
        "ms",
        _CANARY,
        "longest, ms",
        "alone: max, ms",
        "alone",
        at_most(250),
    ),
    Row(
        "Under load",
        "soak-memory",
        "200,000 sessions come and go: memory",
        "MB",
        "soak.py --sessions 200000",
        "most RSS since the second tenth, MB",
        "RSS of the second tenth, MB",
        "second tenth",
        times_at_most(1.1),
    ),
    Row(
        "Under load",
        "hoarding-halves",
        "1,000 halves of 5 MB frames: memory",
        "MB",
        "hoarding.py --count 1000",
        "halves: most, MB",
        "halves: before, MB",
        "before",
        at_most(184),
    ),
    Row(
        "Under load",
        "hoarding-requests",
        "1,000 clients that read no answers: memory",
        "MB",
        "hoarding.py --count 1000",
        "askers: most, MB",
        "askers: before, MB",
        "before",
        at_most(184),
    ),
)

_ARROW = "spark.sql.execution.arrow.maxBytesPerBatch=2147483647"
_KAFKA = f"spark.py --against kafka --conf {_ARROW}"
_SMALL = "spark.py --latency --idle --against kafka"


def _beside_kafka(
    name: str, figure: str, stored: str, goal: Goal | None, unit: str = "rows/s", ours: str = "ours tuned"
) -> Row:
    return Row("Spark", name, figure, unit, _KAFKA, f"{ours}: {stored}", f"kafka: {stored}", "", goal)


def _small(name: str, figure: str, unit: str, stored: str, goal: Goal | None = None) -> Row:
    return Row("Spark", name, figure, unit, _SMALL, f"ours: {stored}", f"kafka: {stored}", goal=goal)


_SPARK = (
    _beside_kafka("source-batch-1", "source batch, 1 partition", "source batch, 1 partition", times_at_least(2.2)),
    _beside_kafka("source-batch-4", "source batch, 4 partitions", "source batch, 4 partitions", times_at_least(2.2)),
    _beside_kafka("source-stream-1", "source stream, 1 partition", "source stream, 1 partition", times_at_least(2)),
    _beside_kafka("source-stream-4", "source stream, 4 partitions", "source stream, 4 partitions", times_at_least(2)),
    _beside_kafka("sink-1", "sink, 1 partition", "sink, 1 partition", times_at_least(2.2)),
    _beside_kafka("sink-4", "sink, 4 partitions", "sink, 4 partitions", times_at_least(2.2)),
    _beside_kafka("kafka-read-avro", "columns of AVRO (Kafka: from_avro)", "read AVRO", times_at_least(1)),
    _beside_kafka("kafka-read-json", "columns of JSON (Kafka: from_json)", "read JSON", times_at_least(1)),
    _beside_kafka("kafka-write-avro", "schemaType AVRO (Kafka: to_avro)", "write AVRO", times_at_least(1)),
    _beside_kafka("kafka-write-json", "schemaType JSON (Kafka: to_json)", "write JSON", times_at_least(1)),
    Row(
        "Spark",
        "source-prebuilt",
        "source batch, all columns",
        "rows/s",
        "spark.py --only 'source batch' 'source stream' prebuilt",
        "ours: source batch",
        "ours: prebuilt",
        "prebuilt rows",
        at_least(1_000_000),
    ),
    *(
        Row(
            "Spark",
            f"nested-{way}",
            f"{figure}, 3 levels",
            "rows/s",
            "schemas.py --against spark --nested --rounds 3",
            f"nested {ours}, rows/s",
            f"nested {theirs}, rows/s",
            theirs,
            times_at_least(1.5),
        )
        for way, figure, ours, theirs in (
            ("read-avro", "columns of AVRO", "AVRO as columns", "from_avro"),
            ("read-json", "columns of JSON", "JSON as columns", "from_json"),
            ("write-avro", "schemaType AVRO", "schemaType AVRO", "to_avro"),
            ("write-json", "schemaType JSON", "schemaType JSON", "to_json"),
        )
    ),
    _small("micro-batch", "micro-batch of 1,000 rows, p50", "ms", "rows: triggerExecution", times_at_most(0.9)),
    _small("delay-p50", "client to foreachBatch, p50", "ms", "delay: p50", times_at_most(0.9)),
    _small("idle-spark", "idle query, 4 partitions: Spark", "CPU s/min", "idle: Spark, CPU s a minute", at_most(2)),
    _small("idle-broker", "idle query, 4 partitions: broker", "CPU s/min", "idle: broker, CPU s a minute", at_most(1)),
)

_PLANNING = "planning.py --idle 30"
_PLAN = (
    Row(
        "Spark", "planning", "latestOffset of 1,000 partitions", "ms", _PLANNING, "no limit: p50, ms", goal=at_most(100)
    ),
    Row(
        "Spark",
        "offset-bytes",
        "offset of 1,000 partitions in the checkpoint",
        "KB",
        _PLANNING,
        "offset, KB",
        goal=at_most(30),
    ),
    Row(
        "Spark",
        "idle-1000-planner",
        "idle query of 1,000 partitions: planner",
        "% of a core",
        _PLANNING,
        "idle: planner, % of a core",
        goal=at_most(3),
    ),
    Row(
        "Spark",
        "idle-1000-broker",
        "idle query of 1,000 partitions: broker",
        "% of a core",
        _PLANNING,
        "idle: broker, % of a core",
        goal=at_most(1),
    ),
    Row(
        "Spark",
        "start-1000",
        "start on 1,000 partitions to the first micro-batch",
        "s",
        _PLANNING,
        "start from earliest, s",
        goal=at_most(2),
    ),
    *(
        Row(
            "Spark",
            f"spark-{version}-{name}",
            f"Spark {version}: {name}",
            "rows/s",
            "spark_versions.py --rows 1500000 --rounds 2",
            f"{version}: {name}",
            f"4.3: {name}",
            "Spark 4.3",
        )
        for version in ("4.0", "4.1")
        for name in ("source batch", "sink batch")
    ),
)

_WIRE, _SCHEMAS, _CLIFFS = "wire.py", "schemas.py", "cliffs.py"
_CORE = (
    Row(
        "One core",
        "decode",
        "decoding 100 B with keys, all columns",
        _S,
        _WIRE,
        "decode 1,000 x 100 B, all Spark columns: messages/s",
        goal=at_least(4_000_000),
    ),
    Row(
        "One core",
        "encode",
        "encoding 100 B with keys",
        _S,
        _WIRE,
        "encode 1,000 x 100 B with keys: messages/s",
        goal=at_least(3_000_000),
    ),
    Row("One core", "decode-avro", "decoding 6 fields of AVRO", "rows/s", _SCHEMAS, "decode AVRO, rows/s"),
    Row("One core", "decode-json", "decoding 6 fields of JSON", "rows/s", _SCHEMAS, "decode JSON, rows/s"),
    Row(
        "One core",
        "encode-avro",
        "encoding 5 fields as AVRO",
        "rows/s",
        _SCHEMAS,
        "encode AVRO, rows/s",
        "encode fastavro, rows/s",
        "fastavro",
    ),
    Row(
        "One core",
        "nested-decode-json",
        "decoding JSON of 3 levels",
        "s a million",
        "nested.py",
        "JSON: 30 fields, three levels, decode, s a million",
        "JSON: 30 flat fields, decode, s a million",
        "30 flat fields",
    ),
    Row(
        "One core",
        "nested-encode-json",
        "encoding JSON of 3 levels",
        "s a million",
        "nested.py",
        "JSON: 30 fields, three levels, encode, s a million",
        "JSON: 30 flat fields, encode, s a million",
        "30 flat fields",
    ),
    Row(
        "One core",
        "properties",
        "40 properties, messages",
        _S,
        _CLIFFS,
        "40 properties, by row: case, rows/s",
        "40 properties, by row: clean, rows/s",
        "2 properties",
        times_at_least(0.2),
    ),
    Row(
        "One core",
        "undecodable-json",
        "every second JSON message undecodable",
        "times slower",
        _CLIFFS,
        "JSON: every second message undecodable: times slower",
        goal=at_most(1.5),
    ),
    Row(
        "One core",
        "entries-of-one",
        "entries of one message beside batches",
        "times slower",
        _CLIFFS,
        "entries of one message: times slower",
        goal=at_most(5),
    ),
    Row(
        "One core",
        "sink-topics",
        "sink, 100 topics in turn",
        "rows/s",
        "sink.py --rows 400000",
        "100 topics in turn: rows/s",
        "1 topic: rows/s",
        "one topic",
        times_at_least(0.2),
    ),
    Row(
        "One core",
        "hotpath",
        "scan of SENDs with receipts",
        _S,
        "hotpath.py",
        "ours: scan + receipts, 100 B",
        "protobuf: scan + receipts, 100 B",
        "protobuf",
    ),
    Row(
        "One core",
        "tables-send",
        "send_table",
        "rows/s",
        "tables.py",
        "spark_pulsar: send",
        "official client: send",
        "official client",
        at_least(1e6),
    ),
    Row(
        "One core",
        "tables-read",
        "read_table, only value",
        "rows/s",
        "tables.py",
        "spark_pulsar: read, only value",
        "official client: read, only value",
        "official client",
        at_least(2e6),
    ),
    Row(
        "One core",
        "tables-read-all",
        "read_table, all columns",
        "rows/s",
        "tables.py",
        "spark_pulsar: read, all columns",
        "official client: read, only value",
        "official client",
        at_least(2e6),
    ),
)

ROWS: Final = (*_BROKER, *_TLS, *_TRANSACTION_ROWS, *_STORAGE, *_LOAD, *_SPARK, *_PLAN, *_CORE)
