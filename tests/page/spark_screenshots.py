"""Pictures of Spark's UI over a stream of ours for the docs: `python -m tests.page.spark_screenshots` writes
docs/images/spark-*.png."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Page
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import spark_pulsar

from .browser import launched
from .screenshots import FOLDER, MOST_BYTES

WIDTH: Final = 1280
_BATCHES: Final = 12
_ROWS: Final = 5_000


def session() -> SparkSession:
    """Starts Spark with its UI on a free port."""
    builder = SparkSession.builder.master("local[2]").appName("orders")
    for key, value in {
        "spark.ui.port": "0",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.pyspark.python": sys.executable,
        "spark.sql.shuffle.partitions": "2",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def stream(spark: SparkSession, broker: spark_pulsar.BrokerProcess) -> StreamingQuery:
    """Starts a query that has a name, and lets it run some micro-batches behind its topic."""
    topic = {"service.url": broker.service_url, "topic": "orders"}
    rows = spark.range(_BATCHES * _ROWS).selectExpr("CONCAT('order ', id) AS value")
    rows.write.format("pulsar").options(**topic).mode("append").save()
    read = spark.readStream.format("pulsar").options(**topic, startingOffsets="earliest", maxMessagesPerTrigger=_ROWS)
    write = read.load().writeStream.format("noop").queryName("orders-job")
    return write.option("checkpointLocation", tempfile.mkdtemp()).trigger(processingTime="1 second").start()


def take(page: Page, url: str, name: str, height: int) -> Path:
    """Takes the picture of one address."""
    page.set_viewport_size({"width": WIDTH, "height": height})
    page.goto(url, wait_until="networkidle")
    path = FOLDER / f"spark-{name}.png"
    page.screenshot(path=path)
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES} bytes")
    return path


def main() -> None:
    """Runs a stream, and takes the pictures of the tab, of the query and of a micro-batch."""
    spark = session()
    ui = spark.sparkContext.uiWebUrl
    with spark_pulsar.broker_process() as broker, launched() as browser:
        query = stream(spark, broker)
        query.processAllAvailable()
        print(spark_pulsar.explain(query))
        page = browser.new_page(color_scheme="light", reduced_motion="reduce")
        print(take(page, f"{ui}/StreamingQuery/", "streaming", 330))
        print(take(page, f"{ui}/StreamingQuery/statistics/?id={query.runId}", "query", 900))
        page.goto(f"{ui}/SQL/")
        newest = page.locator("a[href*='execution/?id=']").first.get_attribute("href") or ""
        work = int(newest.rpartition("=")[2]) + 1  # the part of a micro-batch that has the figures
        print(take(page, f"{ui}/SQL/execution/?id={work}", "micro-batch", 900))
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
