"""Clean a topic into another, once each, while the job is killed again and again; then count and compare.

    spark-submit jobs/exactly_once_etl.py --admin-url http://127.0.0.1:8080 --kills 3

The job reads --source as a stream, drops flights that did not depart, and writes to --target with the guarantee
`effectively-once`, for which it turns de-duplication on in the target topic. The query runs in a program of its own,
which is killed (SIGKILL, Spark with it) --kills times, at a random moment after its first micro-batch; then this
program takes it to its end on the same checkpoint. At last the source is cleaned again by a batch read: count and
checksum must be those of the target. Ends with status 1 when they are not.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

STARTED = "first micro-batch done"
PAUSE_S = 0.02
LONGEST_LIFE_S = 2.0


def cleaned(flights: DataFrame) -> DataFrame:
    """Rows for the sink: departed flights, by carrier."""
    value = F.to_json(F.struct("carrier", "flight", "origin", "dest", "dep_delay", "arr_delay"))
    departed = flights.where("dep_delay IS NOT NULL")
    return departed.select(value.alias("value"), F.col("carrier").alias("__key"), "__eventTime")


def checksum(rows: DataFrame) -> tuple[int, int]:
    """Counts rows, and adds up a hash of each."""
    content = F.xxhash64(F.col("value").cast("string"), "__key", "__eventTime").cast("decimal(20,0)")
    count, total = rows.agg(F.count("*"), F.sum(content)).collect()[0]
    return count, int(total or 0)


def run_query(spark: SparkSession, args: argparse.Namespace) -> None:
    """Runs the stream to the end of the source; says when its first micro-batch is done."""
    pulsar = {"service.url": args.service_url}
    read = spark.readStream.format("pulsar").options(topic=args.source, startingOffsets="earliest", **pulsar)
    flights = read.option("maxMessagesPerTrigger", args.max_per_trigger).load()
    query = (
        cleaned(flights)
        .writeStream.format("pulsar")
        .options(topic=args.target, deliveryGuarantee="effectively-once", checkpointLocation=args.checkpoint, **pulsar)
        .trigger(availableNow=True)
        .start()
    )
    if args.query:
        while query.isActive and query.lastProgress is None:
            time.sleep(PAUSE_S)
        print(STARTED, flush=True)
    query.awaitTermination()


def deduplicate(args: argparse.Namespace) -> None:
    """Turns de-duplication on in the target topic, which is made first if it does not exist."""
    url = f"{args.admin_url}/admin/v2/persistent/public/default/{args.target}"
    for path, method, body in (("", "PUT", None), ("/deduplicationEnabled", "POST", b"true")):
        request = urllib.request.Request(url + path, data=body, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            urllib.request.urlopen(request, timeout=30).close()
        except urllib.error.HTTPError as error:
            with error:
                if error.code != 409:  # it exists
                    raise SystemExit(f"{method} {url}{path}: {error.code} {error.read().decode()}") from error


def run_until(command: list[str], life_s: float) -> int:
    """Runs the query's program, and kills it and its Spark `life_s` seconds after its first micro-batch, or when this
    program is interrupted. Returns its status."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
    env = {**own, "PYSPARK_PYTHON": sys.executable}  # a Spark of its own, not that of this program
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=env) as program:
        assert program.stdout is not None
        try:
            while (line := program.stdout.readline()) and STARTED not in line:
                pass
            return program.wait(life_s)
        except BaseException as end:
            os.killpg(program.pid, signal.SIGKILL)
            if not isinstance(end, subprocess.TimeoutExpired):
                raise
            return program.wait()


def finish_and_compare(args: argparse.Namespace) -> int:
    """Takes the query to its end, and compares source and target. Returns the exit status."""
    spark = SparkSession.builder.appName("exactly-once ETL").getOrCreate()
    try:
        run_query(spark, args)
        read = spark.read.format("pulsar").option("service.url", args.service_url)
        expected = checksum(cleaned(read.option("topic", args.source).load()))
        found = checksum(read.option("topic", args.target).load())
    finally:
        spark.stop()
    print(f"{expected[0]:,} flights departed, {found[0]:,} messages in {args.target}")
    print("equal counts and checksums" if found == expected else "NOT EQUAL")
    return 0 if found == expected else 1


def main() -> int:
    """The program of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service-url", default="pulsar://127.0.0.1:6650")
    parser.add_argument("--admin-url", default="http://127.0.0.1:8080")
    parser.add_argument("--source", default="flights")
    parser.add_argument("--target", default="departed")
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None, help="for the moments of the kills")
    parser.add_argument("--max-per-trigger", type=int, default=20_000)
    parser.add_argument("--checkpoint", help="of the query; without, a temporary directory")
    parser.add_argument("--query", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.query:
        spark = SparkSession.builder.appName("exactly-once ETL").getOrCreate()
        run_query(spark, args)
        spark.stop()
        return 0

    deduplicate(args)
    moments = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="exactly-once-") as directory:
        args.checkpoint = args.checkpoint or str(Path(directory) / "checkpoint")
        command = [sys.executable, __file__, "--query", "--service-url", args.service_url, "--source", args.source]
        command += ["--target", args.target, "--checkpoint", args.checkpoint]
        command += ["--max-per-trigger", str(args.max_per_trigger)]
        for kill in range(args.kills):
            life_s = moments.uniform(0, LONGEST_LIFE_S)
            status = run_until(command, life_s)
            print(f"run {kill + 1}: {'killed' if status == -signal.SIGKILL else 'ended'} after {life_s:.1f} s")
        return finish_and_compare(args)


if __name__ == "__main__":
    sys.exit(main())
