"""Read again what was published between two times, split over many tasks, and check it against a full read.

    spark-submit jobs/replay_by_time.py --from 2026-11-23T10:00:00Z --until 2026-11-23T11:00:00Z --output /data/hour

Times are publish times in ISO 8601. The job looks up each topic partition by time once, so that nothing before the
window is read; --tasks says over how many tasks the window is spread. With --output it is written there as Parquet, to
a directory that does not exist yet. With --verify the whole topic is read as well and filtered: both must find the same
messages. Ends with status 1 when they do not.
"""

import argparse
import sys
from datetime import datetime

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F


def read_window(spark: SparkSession, args: argparse.Namespace) -> DataFrame:
    """Messages published in the window."""
    window = {"startingTime": _ms(args.start), "endingTime": _ms(args.end), "minPartitions": args.tasks}
    return spark.read.format("pulsar").options(topic=args.topic, **window, **{"service.url": args.service_url}).load()


def _ms(time: datetime) -> str:
    return str(int(time.timestamp() * 1000))


def summary(rows: DataFrame) -> tuple[int, int]:
    """Counts messages, and adds up a hash of each, so that their order does not matter."""
    content = [_hashable(rows, name) for name in rows.columns]
    count, total = rows.agg(F.count("*"), F.sum(F.xxhash64(*content).cast("decimal(20,0)"))).collect()[0]
    return count, int(total or 0)


def _hashable(rows: DataFrame, name: str) -> Column:
    is_map = rows.schema[name].dataType.typeName() == "map"  # Spark hashes no maps
    return F.to_json(name) if is_map else F.col(name)


def main() -> int:
    """The program of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service-url", default="pulsar://127.0.0.1:6650")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--from", dest="start", type=datetime.fromisoformat, required=True)
    parser.add_argument("--until", dest="end", type=datetime.fromisoformat, required=True, help="not included")
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--output", help="directory for Parquet files")
    parser.add_argument("--verify", action="store_true")
    args = parser.parse_args()

    spark = SparkSession.builder.appName("replay by time").getOrCreate()
    try:
        window = read_window(spark, args)
        if args.output is not None:
            try:
                window.write.parquet(args.output)
            except AnalysisException as error:
                if error.getCondition() != "PATH_ALREADY_EXISTS":
                    raise
                print(f"--output {args.output} exists: name another directory, or remove that one")
                return 1
        found = summary(window)
        print(f"{found[0]:,} messages in the window, read by {window.rdd.getNumPartitions()} tasks")
        if args.verify:
            every = spark.read.format("pulsar").options(topic=args.topic, **{"service.url": args.service_url}).load()
            published = F.col("__publishTime")
            if summary(every.where((published >= F.lit(args.start)) & (published < F.lit(args.end)))) != found:
                print("a full read finds other messages")
                return 1
            print(f"a full read of {every.count():,} messages finds the same")
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
