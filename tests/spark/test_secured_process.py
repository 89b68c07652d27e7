"""Spark on `broker_process(token=True, tls=True)`, in the few lines that the docs promise."""

from __future__ import annotations

import pulsar
import pytest
from pyspark.sql import SparkSession

import spark_pulsar


@pytest.mark.ours_only("SEC-84")
def test_spark_and_the_official_client_share_a_secured_broker(spark: SparkSession) -> None:
    # covers SEC-84
    with spark_pulsar.broker_process(token=True, tls=True) as broker:
        numbers = spark.range(10).selectExpr("CONCAT('n', id) AS value")
        numbers.write.format("pulsar").options(**broker.spark_options, topic="numbers").mode("append").save()

        client = pulsar.Client(**broker.client_options, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        client.create_producer("numbers").send(b"last")
        client.close()
        values = spark.read.format("pulsar").options(**broker.spark_options, topic="numbers").load().select("value")
        expected = {f"n{number}".encode() for number in range(10)} | {b"last"}
        assert {bytes(row.value) for row in values.collect()} == expected

        open_options = {"service.url": broker.service_url, "topic": "numbers"}
        with pytest.raises(Exception, match=r"certificate of 127\.0\.0\.1"):
            spark.read.format("pulsar").options(**open_options).load().count()
        nobody = {name: value for name, value in broker.spark_options.items() if "auth" not in name}
        with pytest.raises(Exception, match="Failed to authenticate"):
            spark.read.format("pulsar").options(**nobody, topic="numbers").load().count()
        assert broker.as_role("admin").token not in broker.log
