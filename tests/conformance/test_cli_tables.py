"""Topics as tables from the command line: `read --output` and `sql`, against either broker."""

from __future__ import annotations

import csv
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from spark_pulsar import read_table, send_table
from spark_pulsar.cli.main import app
from tests.brokers import Broker

ORDERS = pa.table(
    {
        "customer": ["ann", "bob", 'a "nn"\n'],
        "amount": [1.5, None, 3.0],
        "lines": [[{"item": "x", "price": 1}], [], None],
        "__key": ["1", "2", "3"],
        "__messageProperties": pa.array([[("x", "1")], [], None], pa.map_(pa.string(), pa.string())),
    }
)
COLUMNS = ("customer", "amount", "lines", "__key")


def run(broker: Broker, *words: str) -> Result:
    return CliRunner().invoke(app, [words[0], "-u", broker.service_url, *words[1:]])


def done(broker: Broker, *words: str) -> str:
    result = run(broker, *words)
    assert result.exit_code == 0, result.stderr
    return result.stdout


@pytest.fixture
def orders(broker: Broker, topic: str) -> str:
    """A topic with the orders, by a schema."""
    send_table(broker.service_url, topic, ORDERS, options={"schemaType": "AVRO"})
    return topic


@pytest.fixture
def expected(broker: Broker, orders: str) -> list[dict[str, Any]]:
    return read_table(broker.service_url, orders, columns=COLUMNS).to_pylist()


def test_a_topic_as_a_file_of_each_form(
    broker: Broker, orders: str, expected: list[dict[str, Any]], tmp_path: Path
) -> None:
    # covers TABLE-5
    for name in ("o.parquet", "o.arrow", "o.feather", "o.csv", "o.jsonl"):
        result = run(broker, "read", orders, "-o", str(tmp_path / name))
        assert (result.exit_code, result.stdout) == (0, ""), result.stderr
        assert f"3 messages of {orders} in {tmp_path / name}, in " in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.arrow", "o.csv", "o.feather", "o.jsonl", "o.parquet"]
    whole = read_table(broker.service_url, orders)
    assert pq.read_table(tmp_path / "o.parquet").equals(whole)
    assert pyarrow.feather.read_table(tmp_path / "o.arrow").equals(whole)
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    texts = [row | {"__key": row["__key"].decode()} for row in expected]
    assert [{name: line[name] for name in COLUMNS} for line in lines] == texts
    assert lines[0]["__messageProperties"] == {"x": "1"}
    shown = [line.split()[0] for line in done(broker, "read", orders).splitlines()[:2]]
    assert [line["__messageId"] for line in lines[:2]] == shown
    with (tmp_path / "o.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["customer"], row["lines"]) for row in rows] == [
        ("ann", '[{"item":"x","price":1}]'),
        ("bob", "[]"),
        ('a "nn"\n', ""),
    ]


def test_columns_and_bounds_of_a_file(broker: Broker, orders: str, tmp_path: Path) -> None:
    # covers TABLE-5
    path = tmp_path / "o.parquet"
    ids = [
        line.split()[0] for line in done(broker, "read", orders).splitlines() if line.startswith(tuple("0123456789"))
    ]
    for words, customers in (
        (("-n", "2"), ["ann", "bob"]),
        (("--from", ids[1]), ["bob", 'a "nn"\n']),
        (("--until", ids[1]), ["ann", "bob"]),
        (("--from", "latest"), []),
        (("--from", "2100-01-01"), []),
        (("--until", "-1d"), []),
    ):
        done(broker, "read", orders, "-o", str(path), "--columns", "customer", *words)
        table = pq.read_table(path)
        assert (table.column_names, table["customer"].to_pylist()) == (["customer"], customers), words


def test_a_file_that_fails_is_left_as_it_was(broker: Broker, topic: str, tmp_path: Path) -> None:
    # covers TABLE-5
    send_table(broker.service_url, topic, pa.table({"value": [b"text", b"\xff"]}))
    path = tmp_path / "o.csv"
    path.write_text("before")
    for words, status, said in (
        ((topic, "-o", str(path)), 1, "column value has bytes that are not UTF-8"),
        ((f"{topic}x", "-o", str(path)), 1, f"did you mean {topic}?"),
        ((topic, "-o", str(path), "--columns", "__kee"), 1, "__key"),
        ((topic, "-o", str(tmp_path / "o.xls")), 2, "want a file that ends in one of .parquet, .csv"),
        ((topic, "-o", str(tmp_path / "none/o.csv")), 2, "there is no directory"),
        ((topic, "-o", str(path), "--follow"), 2, "a table has no --follow"),
        ((topic, "--columns", "value"), 2, "give --output FILE"),
    ):
        result = run(broker, "read", *words)
        assert (result.exit_code, result.stderr.count("\n")) == (status, 1), result.stderr
        assert said in result.stderr
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("o.csv", "before")]


def test_a_query_over_topics(broker: Broker, orders: str, tmp_path: Path) -> None:
    # covers TABLE-6
    name, short = f'"{orders}"', f'"{orders.rpartition("/")[2]}"'
    query = f"select customer, lines[1].price p, __key::varchar k from {name} where amount > 1 order by k"
    rows = [json.loads(line) for line in done(broker, "sql", query, "-o", "json").splitlines()]
    assert rows == [{"customer": "ann", "p": 1, "k": "1"}, {"customer": 'a "nn"\n', "p": None, "k": "3"}]
    joined = f"with b as (from {name}) select count(*) n from {short} a join b using (customer), range(2)"
    assert done(broker, "sql", joined) == "6\n"
    assert done(broker, "sql", f"select count(*) from {name}", "-o", "csv") == '"count_star()"\n3\n'
    assert done(broker, "sql", f"select count(*) from {name}", "--from", "2100-01-01") == "0\n"
    done(broker, "sql", f"from {name}", "-o", str(tmp_path / "all.parquet"))
    query = f"select count(*) from '{tmp_path / 'all.parquet'}' a join {name} b on a.__messageId = b.__messageId"
    assert done(broker, "sql", query) == "3\n"


def test_a_query_reads_the_columns_that_it_uses(broker: Broker, orders: str) -> None:
    # covers TABLE-6
    from spark_pulsar.cli.access.options import AccessOptions
    from spark_pulsar.cli.tables import sql
    from spark_pulsar.cli.tables.topic_reading import TopicReading

    reading = TopicReading.of(AccessOptions(url=broker.service_url), "sql")
    for query, columns in (
        ("select customer from t where amount > 1", ["customer", "amount"]),
        ("select count(*) from t", ["__publishTime"]),
        ("select l.item from t, unnest(lines) as u(l)", ["lines"]),
        ("select a.customer from t a join t b on a.__key = b.__key", ["customer", "__key"]),
    ):
        topic = sql.Topic(reading, orders)
        sql._choose_columns(query.replace(" t", f' "{orders}"'), [topic])
        assert topic.columns == columns, query


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ('select * from "{topic}x"', "did you mean {topic}?"),
        ('select nothing from "{topic}"', 'Referenced column "nothing" not found'),
        ("select * from my-topic", 'is quoted: "my-topic"'),
        ("select * from shop.orders", 'a topic of another namespace is quoted: "shop/orders"'),
        ('select * from "a/b"', "Invalid topic name"),
        ('drop table "{topic}"', "only queries are run"),
        ('select amount::int::date from "{topic}"', "Unimplemented type for cast"),
    ],
)
def test_mistakes_of_a_query_are_one_line(broker: Broker, orders: str, query: str, said: str) -> None:
    # covers TABLE-6
    result = run(broker, "sql", query.format(topic=orders))
    assert (result.exit_code in (1, 2), result.stdout, result.stderr.count("\n")) == (True, "", 1), result.stderr
    assert said.format(topic=orders) in result.stderr


def test_without_duckdb_the_extra_is_named(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers TABLE-6
    monkeypatch.setattr(
        "spark_pulsar.model.extras.find_spec", lambda name: None if name == "duckdb" else find_spec(name)
    )
    result = run(broker, "sql", "select 1")
    assert (result.exit_code, result.stderr) == (1, "spark-pulsar: sql needs duckdb: pip install 'spark-pulsar[sql]'\n")
