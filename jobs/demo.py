"""`make demo`: flights from Spark into our broker, a streaming job over them, alerts read by the official client.

Starts a broker on free ports and a temporary directory, runs flight_replay.py and delay_board.py through spark-submit,
then reads the topic `delay-alerts` with the official client and compares it with alerts computed here, without Spark.
Ends with status 0 only if every flight was counted and every alert arrived once.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pulsar
import pyspark
from flights import FLIGHT_COUNT, HOUR_MS, airline_names, read_flights, windows
from rich import box
from rich.console import Console
from rich.table import Table

import spark_pulsar

JOBS = Path(__file__).resolve().parent
WINDOW_HOURS, WATERMARK_HOURS = 3, 48
ALERT_MINUTES, ALERT_FLIGHTS = 60, 10
SHOWN = 10
READ_TIMEOUT_MS = 10_000

Alert = tuple[str, int]  # carrier, start of the window in ms


def spark_submit(job: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """Returns the command and the environment that run a job of this directory through spark-submit."""
    binaries = Path(sys.executable).parent
    env = dict(os.environ)
    env["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    env["SPARK_CONF_DIR"] = str(JOBS.parent / "conf")
    env["PYSPARK_PYTHON"] = env["PYSPARK_DRIVER_PYTHON"] = sys.executable
    env["SPARK_LOCAL_IP"] = "127.0.0.1"
    # The jobs are over before the JVM's optimizing compiler pays.
    env.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    if importlib.util.find_spec("numba") is None:
        env["NUMBA_DISABLE_JIT"] = "1"  # `make demo` installs none: it would take longer to install than it saves
    env["PYTHONWARNINGS"] = "ignore::FutureWarning"  # PySpark's on pandas 3, in every process
    return [str(binaries / "spark-submit"), "--master", "local[2]", str(JOBS / job), *arguments], env


def submit(job: str, *arguments: str) -> None:
    """Runs a job of this directory through spark-submit; SystemExit when it fails."""
    command, env = spark_submit(job, *arguments)
    status = subprocess.run(command, env=env, check=False).returncode
    if status != 0:
        raise SystemExit(f"{job} failed with status {status}")


def expected_alerts(limit: int) -> dict[Alert, float]:
    """Mean delay of every window that is closed when all flights are read and late enough for an alert."""
    flights = read_flights(limit)
    watermark_ms = max(flight.scheduled_ms for flight in flights) - WATERMARK_HOURS * HOUR_MS
    return {
        (carrier, start_ms): window.delay_sum_min / window.departed
        for (carrier, start_ms), window in windows(flights, WINDOW_HOURS)
        if start_ms + WINDOW_HOURS * HOUR_MS <= watermark_ms
        and window.departed >= ALERT_FLIGHTS
        and window.delay_sum_min >= ALERT_MINUTES * window.departed
    }


def read_alerts(service_url: str, topic: str) -> list[tuple[Alert, float]]:
    """Everything in the topic, with the official client."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        found = []
        while reader.has_message_available():
            message = reader.read_next(timeout_millis=READ_TIMEOUT_MS)
            alert = json.loads(message.data())
            start = datetime.fromisoformat(alert["window_start"])
            if message.partition_key() != alert["carrier"]:
                raise SystemExit(f"alert of {alert['carrier']} has the key {message.partition_key()!r}")
            found.append(((alert["carrier"], int(start.timestamp()) * 1000), alert["mean_delay_minutes"]))
        return found
    finally:
        client.close()


def compare(found: list[tuple[Alert, float]], expected: dict[Alert, float]) -> list[str]:
    """Describes the mistakes in the alerts; empty when there are none."""
    wrong = [f"{alert} came {count} times" for alert, count in Counter(a for a, _ in found).items() if count > 1]
    means = dict(found)
    wrong += [f"{alert} is missing" for alert in expected.keys() - means.keys()]
    wrong += [f"{alert} should not be" for alert in means.keys() - expected.keys()]
    # Spark rounds to one digit.
    wrong += [
        f"{alert}: mean {means[alert]} and not {mean:.2f}"
        for alert, mean in expected.items()
        if alert in means and abs(means[alert] - mean) > 0.0501
    ]
    return wrong


def show(console: Console, found: list[tuple[Alert, float]]) -> None:
    """The worst alerts as a table."""
    names = airline_names()
    console.print(f"delay-alerts as the official client read it: {len(found)} messages; the {SHOWN} worst:")
    table = Table("airline", "window (UTC)", box=box.SIMPLE)
    table.add_column("mean delay", justify="right")
    for (carrier, start_ms), mean in sorted(found, key=lambda item: -item[1])[:SHOWN]:
        start = datetime.fromtimestamp(start_ms / 1000, UTC)
        table.add_row(names[carrier], f"{start:%d %b %Y %H:%M}, {WINDOW_HOURS} h", f"{mean:.1f} min")
    console.print(table)


def main() -> int:
    """The program of the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, default=FLIGHT_COUNT, help="only so many flights")
    args = parser.parse_args()
    console = Console(highlight=False)
    started = time.monotonic()
    with spark_pulsar.broker_process() as broker:
        console.print(f"broker ready in {time.monotonic() - started:.1f} s: {broker.service_url} {broker.admin_url}")
        limit = str(args.limit)
        submit(
            "flight_replay.py", "--service-url", broker.service_url, "--admin-url", broker.admin_url, "--limit", limit
        )
        board = ["--window-hours", WINDOW_HOURS, "--watermark-hours", WATERMARK_HOURS]
        board += ["--alert-minutes", ALERT_MINUTES, "--alert-flights", ALERT_FLIGHTS, "--expect", limit]
        submit("delay_board.py", "--service-url", broker.service_url, *map(str, board))
        found = read_alerts(broker.service_url, "delay-alerts")
    show(console, found)
    wrong = compare(found, expected_alerts(args.limit))
    for line in wrong[:SHOWN]:
        console.print(line)
    console.print(
        f"{'FAILED' if wrong else 'every alert as computed without Spark'}; {time.monotonic() - started:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
