"""Values on standard output: exact in JSON and YAML, a line each in text."""

import json
from typing import Any

import pytest
import yaml

from spark_pulsar.cli.output.formats import Format, show

TOPICS = [{"topic": "a", "backlog": 12, "rate": 1.5, "policies": {"ttl": None}}, {"topic": "b\tc", "backlog": 3}]


@pytest.mark.parametrize("value", [TOPICS, {"a": {"b": [1, "ü", None]}}, "text", 1, None, True, [], {}, ["x", "y"]])
def test_json_and_yaml_are_the_whole_value(capsys: pytest.CaptureFixture[str], value: Any) -> None:
    show(value, Format.JSON, columns=("topic",))
    assert json.loads(capsys.readouterr().out) == value
    show(value, Format.YAML, columns=("topic",))
    assert yaml.safe_load(capsys.readouterr().out) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (TOPICS, 'a\t12\t1.5\t{"ttl": null}\nb c\t3\t\t\n'),
        ({"a": {"b": 1, "c": {}}, "d": True}, "a.b\t1\na.c\t{}\nd\ttrue\n"),
        (["x", "y"], "x\ny\n"),
        ([1, None], "1\n\n"),
        ([], ""),
        ("one", "one\n"),
        (7, "7\n"),
    ],
)
def test_a_pipe_gets_a_line_each(capsys: pytest.CaptureFixture[str], value: Any, text: str) -> None:
    show(value)
    assert capsys.readouterr().out == text


def test_columns_choose_and_order(capsys: pytest.CaptureFixture[str]) -> None:
    show(TOPICS, columns=("backlog", "topic"))
    assert capsys.readouterr().out == "12\ta\n3\tb c\n"


def test_a_table_has_heads_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    show([{"topic": "[red]a", "backlog": 12}], Format.TABLE)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines[0] == ["topic", "backlog"]
    assert lines[-1] == ["[red]a", "12"]
