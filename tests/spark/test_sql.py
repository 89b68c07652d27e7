"""SQL: views on topics, what a table of the catalog answers, and writes by other names than `save`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from tests.spark.flows import Flows, texts, values

pytestmark = pytest.mark.spark_alone

_numbers = itertools.count()


class Names:
    """Names of views and tables that a test made: all are dropped at its end."""

    def __init__(self, flows: Flows) -> None:
        self._flows = flows
        self._made: list[str] = []

    def new(self, kind: str) -> str:
        name = f"{kind}_{next(_numbers)}"
        self._made.append(f"{kind} IF EXISTS {name}")
        return name

    def drop(self) -> None:
        for made in self._made:
            self._flows.spark.sql(f"DROP {made}")


@pytest.fixture
def names(flows: Flows) -> Iterator[Names]:
    made = Names(flows)
    yield made
    made.drop()


def test_a_view_reads_and_another_one_is_inserted_into(flows: Flows, names: Names) -> None:
    # covers READ-27
    sql, url, topic = flows.spark.sql, flows.broker.service_url, flows.broker.topic("view")
    target, view = names.new("VIEW"), names.new("VIEW")
    # options as people write them: a name with a dot, and any case
    sql(
        f"CREATE TEMPORARY VIEW {target} (value STRING, __key STRING) USING pulsar "
        f"OPTIONS (service.url '{url}', Topic '{topic}', hashingscheme 'BoostHash', BATCHINGMAXMESSAGES 10)"
    )
    sql(f"INSERT INTO {target} VALUES ('a', 'k'), ('b', NULL)")
    flows.rows("value string, __key string", [("a", "k")]).write.insertInto(target)
    sql(
        f"CREATE TEMPORARY VIEW {view} USING pulsar OPTIONS (`service.url` '{url}', topic '{topic}', "
        "startingOffsets 'earliest', failOnDataLoss false, POLLTIMEOUTMS 60000, `pulsar.client.usetls` false)"
    )
    found = sql(
        f"SELECT CAST(value AS string) v, CAST(__key AS string) k, __topic t FROM {view} ORDER BY v, k"
    ).collect()
    assert [(row.v, row.k, row.t) for row in found] == [("a", "k", topic), ("a", "k", topic), ("b", None, topic)]
    with pytest.raises(AnalysisException, match="__messageId and __publishTime cannot be written"):
        sql(f"INSERT INTO {view} SELECT * FROM {view}")
    with pytest.raises(AnalysisException, match=r"cannot be overwritten: use .*in SQL INSERT INTO"):
        sql(f"INSERT OVERWRITE {target} VALUES ('c', 'k')")
    with pytest.raises(AnalysisException, match=r"unknown option topc; did you mean topic"):
        sql(f"CREATE TEMPORARY VIEW {names.new('VIEW')} USING pulsar OPTIONS (`service.url` '{url}', topc '{topic}')")


def test_a_table_of_the_catalog_is_answered_with_the_view_to_use(flows: Flows, names: Names) -> None:
    # covers READ-28
    sql, url, topic = flows.spark.sql, flows.broker.service_url, flows.broker.topic("table")
    options = f"OPTIONS (`service.url` '{url}', topic '{topic}')"
    flows.send(topic, texts(2))
    view = f"CREATE TEMPORARY VIEW flights USING pulsar OPTIONS (`service.url` '{url}', `topic` '{topic}')"
    for table in (
        f"USING pulsar {options}",
        f"USING pulsar TBLPROPERTIES ('service.url' = '{url}', topic = '{topic}')",
    ):
        with pytest.raises(AnalysisException) as refused:
            sql(f"CREATE TABLE {names.new('TABLE')} {table}")
        assert view in str(refused.value)
    table = names.new("TABLE")
    sql(f"CREATE TABLE {table} (value STRING) USING pulsar {options}")  # Spark does not ask for columns that it is told
    for statement in (f"SELECT * FROM {table}", f"INSERT INTO {table} VALUES ('x')"):
        with pytest.raises(AnalysisException, match=r"hands no options on for a table .*CREATE TEMPORARY VIEW flights"):
            sql(statement).collect()
    given = f"WITH (`service.url` = '{url}', topic = '{topic}')"
    sql(f"INSERT INTO {table} {given} VALUES ('x')")
    assert [row.value for row in sql(f"SELECT value FROM {table} {given}").collect()] == ["m0", "m1", "x"]


def test_other_ways_to_write(flows: Flows, names: Names) -> None:
    # covers READ-28
    topic = flows.broker.topic("ways")
    frame = flows.rows("value string", [("x",)])
    writer = frame.write.format("pulsar").option("service.url", flows.broker.service_url).option("topic", topic)
    refused: dict[str, Callable[[], Any]] = {
        r"cannot be overwritten: use .mode\(\"append\"\)": lambda: writer.mode("overwrite").save(),
        r'cannot be written in the "ErrorIfExists" mode. Please use either the "Append"': lambda: writer.mode(
            "error"
        ).save(),
        r'cannot be written in the "Ignore" mode. Please use either the "Append"': lambda: writer.mode("ignore").save(),
        r"`pulsar`.`flights` cannot be found": lambda: frame.writeTo("pulsar.flights").append(),
        r"Unsupported data source type for direct query on files: pulsar": lambda: flows.spark.sql(
            "SELECT * FROM pulsar.`flights`"
        ),
    }
    for reason, write in refused.items():
        with pytest.raises(AnalysisException, match=reason):
            write()
    table = names.new("TABLE")
    writer.mode("append").saveAsTable(table)  # makes a table, too
    writer.mode("append").saveAsTable(table)
    given = {"service.url": flows.broker.service_url, "topic": topic}
    frame.writeTo(table).options(**given).append()
    assert values(flows.batch(topic).collect()) == ["x"] * 3
