"""Records of tasks in Spark's table of worker logs, and none where Spark keeps none."""

from __future__ import annotations

import pulsar
import pytest
from pyspark.sql import Row, SparkSession

from tests.eventually import eventually
from tests.spark.flows import Flows, texts
from tests.spark.versions import needs_spark

pytestmark = [pytest.mark.spark_alone, needs_spark("4.1", "READ-33")]

KEPT = "spark.sql.pyspark.worker.logging.enabled"


def records(spark: SparkSession) -> list[Row]:
    """What our workers have recorded, at the level INFO."""
    return spark.tvf.python_worker_logs().where("logger = 'spark_pulsar' AND level = 'INFO'").collect()


class Number(pulsar.schema.Record):
    """A schema that texts are not of."""

    n = pulsar.schema.Integer()


@pytest.mark.long
def test_tasks_are_recorded_where_spark_keeps_the_logs(flows: Flows, capfd: pytest.CaptureFixture[str]) -> None:
    # covers READ-33
    spark, topic, copy = flows.spark, flows.broker.topic("logs", partitions=2), flows.broker.topic("copy")
    flows.send(topic, texts(10))
    assert flows.batch(topic).count() == 10
    assert "rows of" not in capfd.readouterr().err
    spark.conf.set(KEPT, "true")
    try:
        flows.write(flows.batch(topic).select("value"), copy)
        eventually(lambda: {row["context"].get("outcome") for row in records(spark)} >= {"read", "written"}, 60)
        contexts = [row["context"] for row in records(spark)]
        reads = [each for each in contexts if each.get("outcome") == "read"]
        assert {each["topic"] for each in reads} == {f"{topic}-partition-{number}" for number in range(2)}
        assert sum(int(each["rows"]) for each in reads) == 10
        assert all(int(each["bytes"]) > 0 <= int(each["milliseconds"]) and each["end"] for each in reads)
        writes = [each for each in contexts if each.get("outcome") == "written"]
        assert sum(int(each["rows"]) for each in writes) == 10
        assert {each["topic"] for each in writes} == {copy}

        typed = flows.broker.topic("undecodable")
        schema = pulsar.schema.JsonSchema(Number)
        flows.official().create_producer(typed, schema=schema).send(Number(n=1))
        flows.send(typed, ["no JSON", "neither"])
        assert flows.batch(typed, mode="PERMISSIVE").where("n IS NOT NULL").count() == 1
        eventually(lambda: any("decodeErrors" in row["context"] for row in records(spark)), 60)
        [told] = [row["context"] for row in records(spark) if "decodeErrors" in row["context"]]
        assert (told["topic"], told["decodeErrors"], told["mode"]) == (typed, "2", "PERMISSIVE")
        assert told["reason"]
    finally:
        spark.conf.unset(KEPT)
