"""Send the messages of a dead letter topic back to where they came from.

    spark-submit jobs/replay_dead_letters.py --topic orders-billing-DLQ --checkpoint /data/replay --dry-run
    spark-submit jobs/replay_dead_letters.py --topic orders-billing-DLQ --checkpoint /data/replay

Each letter becomes the message that it is a copy of, with payload, key, event time and properties, and goes to the
topic that its property REAL_TOPIC names. The job takes what is there when it starts, and ends. Started again with the
same --checkpoint it takes what has come since; the subscription follows it, so that letters that were sent back need
not be kept. A job that was killed may send the letters of its last micro-batch twice.

--dry-run counts what would be sent back, and changes nothing. Ends with status 1 at a letter that names no topic,
before anything of its micro-batch is sent, unless --default-topic says where to send it.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import spark_pulsar

NO_TOPIC = "no topic is named in {} letters, the first is {}: give --default-topic to say where to send them"


class Replay:
    """The micro-batches of one run, and what they sent back."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.sent: Counter[tuple[str, str]] = Counter()
        self.problem = ""
        self._args = args

    def take(self, letters: DataFrame, _batch_id: int) -> None:
        """Sends one micro-batch back; only counts it in a dry run."""
        letters = letters.persist()
        counts = self._counts(letters)
        if any(topic is None for topic, _ in counts):
            lost = letters.where("__messageProperties['REAL_TOPIC'] IS NULL").selectExpr("hex(__messageId)")
            self.problem = NO_TOPIC.format(sum(counts[key] for key in counts if key[0] is None), lost.first()[0])
            raise ValueError(self.problem)
        if not self._args.dry_run:
            messages = spark_pulsar.replayed_letters(letters, binary_keys=self._args.binary_keys)
            if self._args.default_topic:
                messages = messages.fillna(self._args.default_topic, subset="__topic")
            messages.write.format("pulsar").mode("append").option("service.url", self._args.service_url).save()
        self.sent += counts
        letters.unpersist()

    def _counts(self, letters: DataFrame) -> Counter[tuple[str, str]]:
        """Counts letters by topic and subscription, in one task; a shuffle would cost more than it saves."""
        properties = F.col("__messageProperties")
        of = letters.coalesce(1).groupBy(
            F.coalesce(properties["REAL_TOPIC"], F.lit(self._args.default_topic)).alias("topic"),
            F.coalesce(properties["REAL_SUBSCRIPTION"], F.lit("unknown")).alias("subscription"),
        )
        return Counter({(row["topic"], row["subscription"]): row["count"] for row in of.count().collect()})


def run(spark: SparkSession, args: argparse.Namespace, checkpoint: Path) -> int:
    """Sends back what the topic holds; returns the exit status."""
    reader = (
        spark.readStream.format("pulsar")
        .option("service.url", args.service_url)
        .option("topic", args.topic)
        .option("startingOffsets", "earliest")
        .option("useTopicSchema", "false")
        .option("metadataColumns", "__orderingKey")
        .option("maxMessagesPerTrigger", args.max_per_trigger)
    )
    if not args.dry_run:
        reader = reader.option("subscriptionName", args.subscription)
    replay = Replay(args)
    writer = reader.load().writeStream.queryName("replay").foreachBatch(replay.take)
    try:
        writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    except StreamingQueryException:
        if not replay.problem:
            raise
    for (topic, subscription), count in sorted(replay.sent.items()):
        print(f"{count:>11,}  {topic}, dead-lettered by subscription {subscription}")
    print(f"{replay.sent.total():>11,}  messages {'would be ' if args.dry_run else ''}sent back")
    if replay.problem:
        print(replay.problem)
    return 1 if replay.problem else 0


def main() -> int:
    """The program of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service-url", default="pulsar://127.0.0.1:6650")
    parser.add_argument("--topic", required=True, help="dead letter topic, or one with retry letters")
    parser.add_argument("--checkpoint", required=True, type=Path, help="directory that remembers what was sent back")
    parser.add_argument("--subscription", default="replay-dead-letters", help="durable subscription that follows")
    parser.add_argument("--default-topic", help="topic for letters that name none")
    parser.add_argument("--binary-keys", action="store_true", help="keys are bytes, not text")
    parser.add_argument("--max-per-trigger", type=int, default=10_000)
    parser.add_argument("--dry-run", action="store_true", help="count, and send nothing")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("replay dead letters").getOrCreate()
    try:
        with tempfile.TemporaryDirectory(prefix="replay-") as scratch:
            checkpoint = args.checkpoint
            if args.dry_run:  # a copy of what is remembered
                checkpoint = Path(scratch) / "checkpoint"
                if args.checkpoint.exists():
                    shutil.copytree(args.checkpoint, checkpoint)
            return run(spark, args, checkpoint)
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
