"""Copy topics from one Pulsar to another: how one moves from a broker of ours to a cluster, or back.

    spark-submit jobs/topic_copy.py --source-url pulsar://127.0.0.1:6650 --target-url pulsar://cluster:6650 \\
        --target-admin-url http://cluster:8080 --checkpoint /data/copy flights weather

Each message keeps its partition, its order there, its payload, key, ordering key, event time and properties, and the
version of its schema; all versions are registered with the target first. It gets a new message id and a new publish
time. Each topic is copied up to its end at the start of the job. Run again with the same --checkpoint, the job copies
what has come since, or what a killed run left: with --guarantee effectively-once (de-duplication must be on in the
target's namespace, and no message larger than it takes) no message twice, with at-least-once maybe those of its last
micro-batch.

A target topic that does not exist is made with the partitions of the source, by REST (--target-admin-url) if it has
any. At the end each partition is read on both sides, up to where it was copied: counts and checksums must be equal.
Ends with status 1 when they are not.
"""

import argparse
import json
import sys
from pathlib import Path

import pulsar
from partitioned_topics import create_topic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import spark_pulsar

METADATA = "__orderingKey,__schemaVersion,__partition"
CONTENT = ("value", "__key", "__orderingKey", "__eventTime", "__messageProperties")


def partition_count(service_url: str, topic: str) -> int:
    """Returns the partitions of a topic; 0 for one that has none, or does not exist."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        partitions = client.get_topic_partitions(topic)
        return 0 if len(partitions) == 1 and "-partition-" not in partitions[0] else len(partitions)
    finally:
        client.close()


def make_target(args: argparse.Namespace, topic: str) -> None:
    """Makes the target topic with the partitions of the source, where it does not exist. SystemExit when it has other
    partitions, or cannot be made."""
    wanted = partition_count(args.source_url, topic)
    if args.target_admin_url is not None and wanted:
        create_topic(args.target_admin_url, topic, wanted)
    found = partition_count(args.target_url, topic)
    if found != wanted:
        raise SystemExit(
            f"{topic} has {wanted} partitions in the source and {found} in the target: make it there with as many, or "
            "name --target-admin-url"
        )


def read_options(args: argparse.Namespace, topic: str) -> dict[str, str]:
    """Options of a read of the source that gives payloads as they are."""
    return {"service.url": args.source_url, "topic": topic, "useTopicSchema": "false", "metadataColumns": METADATA}


def copied(rows: DataFrame, versions: dict[int, int], args: argparse.Namespace) -> DataFrame:
    """Rows for the sink: each names its partition, and the target's version of its schema."""
    if not args.binary_keys:
        is_text = F.col("__key").isNull() | F.is_valid_utf8(F.col("__key").cast("string"))
        error = F.raise_error(F.lit("a key is no text: copy this topic with --binary-keys"))
        rows = rows.withColumn("__key", F.when(is_text, F.col("__key").cast("string")).otherwise(error))
    chosen = rows.select(*CONTENT, "__partition", "__schemaVersion")
    if not versions:
        return chosen.drop("__schemaVersion")
    known = F.create_map(*[F.lit(number) for pair in versions.items() for number in pair])
    return chosen.withColumn("__schemaVersion", known[F.col("__schemaVersion")].cast("bigint"))


def copy(spark: SparkSession, topic: str, args: argparse.Namespace) -> dict[str, str]:
    """Copies one topic up to its present end, and returns where each partition has been copied up to, ever."""
    make_target(args, topic)
    versions = spark_pulsar.copy_schemas({"service.url": args.source_url}, {"service.url": args.target_url}, topic)
    rows = (
        spark.readStream.format("pulsar")
        .options(startingOffsets="earliest", maxMessagesPerTrigger=args.max_per_trigger, **read_options(args, topic))
        .load()
    )
    checkpoint = Path(args.checkpoint) / topic.replace("/", "_").replace(":", "_")
    schema_type = {"schemaType": "AUTO_PRODUCE_BYTES"} if versions else {}
    chunks = {"chunkingEnabled": "true"} if args.guarantee == "at-least-once" else {}
    query = (
        copied(rows, versions, args)
        .writeStream.format("pulsar")
        .options(topic=topic, deliveryGuarantee=args.guarantee, **schema_type, **chunks)
        .options(**{"service.url": args.target_url, "checkpointLocation": str(checkpoint)})
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return json.loads(spark_pulsar.starting_offsets(checkpoint=str(checkpoint)))  # type: ignore[no-any-return]


def summary(rows: DataFrame) -> dict[int | None, tuple[int, int]]:
    """Counts messages and adds up a hash of each, by partition."""
    content = [F.to_json(name) if name == "__messageProperties" else F.col(name) for name in CONTENT]
    hashed = F.sum(F.xxhash64(*content).cast("decimal(20,0)"))
    counted = rows.groupBy("__partition").agg(F.count("*"), hashed).collect()
    return {partition: (count, int(total)) for partition, count, total in counted}


def verify(spark: SparkSession, topic: str, end: dict[str, str], args: argparse.Namespace, table: Table) -> bool:
    """Compares source and target partition by partition, and adds a line for each to the table."""
    ends = {partition: at for partition, at in end.items() if at != "earliest"}  # else nothing was there
    source, target = read_options(args, topic), {**read_options(args, topic), "service.url": args.target_url}
    del source["topic"]
    reader = spark.read.format("pulsar").options(**source, topics=",".join(ends), endingOffsets=json.dumps(ends))
    expected = summary(reader.load()) if ends else {}
    found = summary(spark.read.format("pulsar").options(**target).load())
    for partition in sorted({*expected, *found}, key=lambda number: -1 if number is None else number):
        old, new = expected.get(partition, (0, 0)), found.get(partition, (0, 0))
        shown = "equal" if old == new else "DIFFERENT"
        table.add_row(topic, "–" if partition is None else str(partition), f"{old[0]:,}", f"{new[0]:,}", shown)
    return expected == found


def main() -> int:
    """The program of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    parser.add_argument("--source-url", default="pulsar://127.0.0.1:6650")
    parser.add_argument("--target-url", required=True)
    parser.add_argument("--target-admin-url", help="make partitioned topics there, through this REST API")
    parser.add_argument("--checkpoint", required=True, help="directory that keeps how far each topic has been copied")
    parser.add_argument("--guarantee", choices=["at-least-once", "effectively-once"], default="at-least-once")
    parser.add_argument("--binary-keys", action="store_true", help="keys are bytes: the copy has them as such")
    parser.add_argument("--max-per-trigger", type=int, default=500_000)
    args = parser.parse_args()

    spark = SparkSession.builder.appName("topic copy").getOrCreate()
    console = Console(highlight=False)
    table = Table("topic", "partition", "source", "target", "content")
    try:
        ends = {topic: copy(spark, topic, args) for topic in args.topics}
        equal = [verify(spark, topic, end, args, table) for topic, end in ends.items()]
    finally:
        spark.stop()
    console.print(table)
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
