"""Cells and examples of the docs run as they stand, in the session of these tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.eventually import eventually
from tests.spark.flows import Flows, texts
from tests.spark.versions import needs_spark

pytestmark = [pytest.mark.spark_alone, pytest.mark.long]

DOCS = Path(__file__).resolve().parents[2] / "docs"


def examples(page: str) -> list[str]:
    """The Python of a page."""
    return re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def last_value(cell: str, names: dict[str, Any]) -> Any:
    """Runs a cell and returns what its last line is, as a notebook does."""
    *before, last = ast.parse(cell).body
    exec(compile(ast.Module(before, []), "<cell>", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    exec(compile(ast.Module([last], []), "<cell>", "exec"), names)
    return None


def test_the_cells_of_the_notebook_page_run(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    broker, table, frame, stream, end = examples("notebooks.md")
    assert "service URL" in last_value(broker, names)._repr_html_()
    try:
        for cell in (table, frame):
            assert sorted(last_value(cell, names)["customer"]) == ["ada", "bob"]
        assert last_value(stream, names) == 2
        assert "seen is running\nreads persistent://public/default/orders" in capsys.readouterr().out
    finally:
        last_value(end, names)
    assert names["broker"].state == "closed"


@needs_spark("4.2", "SPARK-4")
def test_the_listener_of_the_page_prints_the_lag(flows: Flows, capsys: pytest.CaptureFixture[str]) -> None:
    # covers READ-31
    [listener] = [example for example in examples("connector-operations.md") if "StreamingQueryListener" in example]
    topic = flows.broker.topic("orders")
    flows.send(topic, texts(30))
    assert "BatchScan pulsar" in flows.batch(topic)._jdf.queryExecution().toString()
    names: dict[str, Any] = {"spark": flows.spark}
    exec(compile(listener, "<cell>", "exec"), names)
    try:
        writer = flows.stream(topic, maxMessagesPerTrigger=20).writeStream.format("noop").queryName("orders-job")
        flows.run(writer, flows.checkpoint())
        printed: list[str] = []
        eventually(lambda: printed.append(capsys.readouterr().out) or "orders-job 0 0.0" in "".join(printed), 60)
        assert re.search(r"orders-job 10 \d", "".join(printed))
    finally:
        flows.spark.streams.removeListener(names["listener"])
