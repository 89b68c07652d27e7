"""Sessions: how they come to know the format, and a query whose broker goes away."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import spark_pulsar
from tests.brokers import Broker
from tests.eventually import eventually
from tests.spark.flows import Collected, Flows, texts, values
from tests.spark.versions import SPARK


@pytest.mark.spark_alone
def test_the_second_name(flows: Flows) -> None:
    topic = flows.broker.topic("second-name")
    frame = flows.rows("value string", [("x",)])
    options = {"service.url": flows.broker.service_url, "topic": topic}
    frame.write.format("pulsar-py").mode("append").options(**options).save()
    assert values(flows.spark.read.format("pulsar-py").options(**options).load().collect()) == ["x"]


@pytest.mark.spark_alone
def test_register_in_a_session_of_its_own(flows: Flows) -> None:
    topic = flows.broker.topic("registered")
    flows.send(topic, ["x"])
    session = flows.spark.newSession()
    spark_pulsar.register(session)
    spark_pulsar.register(session)
    for name in ("pulsar", "pulsar-py"):
        frame = session.read.format(name).option("service.url", flows.broker.service_url).load(topic)
        assert values(frame.collect()) == ["x"]


@pytest.mark.spark_alone
def test_sql_views(flows: Flows) -> None:
    topic = flows.broker.topic("sql")
    flows.send(topic, texts(3))
    options = f"`service.url` '{flows.broker.service_url}', topic '{topic}'"
    flows.spark.sql(f"CREATE TEMPORARY VIEW flights_view USING pulsar OPTIONS ({options})")
    columns = "(value STRING, __key STRING)"
    flows.spark.sql(f"CREATE TEMPORARY VIEW narrow_view {columns} USING pulsar OPTIONS ({options})")
    try:
        assert flows.spark.sql("SELECT * FROM flights_view").count() == 3
        flows.spark.sql("INSERT INTO narrow_view VALUES ('new', 'k')")
        assert [tuple(row) for row in flows.spark.table("narrow_view").collect()][3:] == [("new", "k")]
        # Spark plans a view's scan once, but for 4.0: a view that was read before shows what was there then.
        assert flows.spark.sql("SELECT * FROM flights_view").count() == (3 if SPARK >= (4, 1) else 4)
    finally:
        flows.spark.sql("DROP VIEW flights_view")
        flows.spark.sql("DROP VIEW narrow_view")


@pytest.mark.spark_alone
def test_a_thread_can_write_once_it_has_a_session(flows: Flows) -> None:
    topic = flows.broker.topic("thread")
    frame = flows.rows("value string", [("x",)])

    def write() -> None:
        flows.spark.createDataFrame([(0,)], "x int")
        flows.write(frame, topic)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(write).result()
    assert values(flows.batch(topic).collect()) == ["x"]


_BROKEN_NEIGHBOUR = """
import sys
from pyspark.sql import SparkSession
import spark_pulsar

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
reader = lambda: spark.read.format("pulsar").option("service.url", sys.argv[1]).load(sys.argv[2])
try:
    reader()
except Exception as error:
    print("undiscovered", "DATA_SOURCE_NOT_FOUND" in str(error))
spark_pulsar.register(spark)
print("rows", reader().count())
stream = spark.readStream.format("pulsar").option("service.url", sys.argv[1]).option("startingOffsets", "earliest")
batches = []
query = stream.load(sys.argv[2]).writeStream.foreachBatch(lambda frame, _: batches.append(frame.count()))
query.trigger(availableNow=True).start().awaitTermination()
print("streamed", sum(batches))
spark.stop()
"""


@pytest.mark.long
@pytest.mark.spark_alone
def test_register_helps_where_a_broken_module_hides_all_sources(flows: Flows, tmp_path: Path) -> None:
    topic = flows.broker.topic("hidden")
    flows.official().create_producer(topic)  # stays open: Pulsar deletes a topic that nobody uses while Spark starts
    flows.send(topic, texts(4))
    (tmp_path / "pyspark_broken_neighbour.py").write_text("raise ImportError('not ours')\n")
    (tmp_path / "job.py").write_text(_BROKEN_NEIGHBOUR)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "job.py"), flows.broker.service_url, topic],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["undiscovered", "True", "rows", "4", "streamed", "4"]


def test_a_query_can_be_stopped_while_the_broker_is_down(
    spark: SparkSession, own_broker: Broker, tmp_path: Path
) -> None:
    with Flows(spark, own_broker, tmp_path) as flows:
        topic = own_broker.topic("down")
        flows.send(topic, texts(3))
        sink = Collected()
        writer = flows.stream(topic, subscriptionName="survivor").writeStream.foreachBatch(sink)
        checkpoint = flows.checkpoint()
        query = flows.start(writer.option("checkpointLocation", checkpoint))
        eventually(lambda: len(sink.all) == 3, 120)
        own_broker.kill()
        began = time.monotonic()
        query.stop()
        assert time.monotonic() - began < 60
        own_broker.restart()
        flows.send(topic, texts(2, 3))
        flows.run(writer, checkpoint)
        assert sink.all == texts(5)


@pytest.mark.spark_alone
def test_no_broker_is_an_error_in_time(spark: SparkSession) -> None:
    options = {"service.url": "pulsar://127.0.0.1:1", "operationTimeoutMs": "500", "topic": "t"}
    began = time.monotonic()
    with pytest.raises(AnalysisException, match=r"127\.0\.0\.1:1"):
        spark.read.format("pulsar").options(**options).load().count()
    assert time.monotonic() - began < 60
