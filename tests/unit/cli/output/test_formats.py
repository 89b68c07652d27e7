"""Values on standard output: exact, a line each, on a terminal; and when it takes no more."""

import json
import os
import pty
import subprocess
import sys
from typing import Any

import pytest
import yaml

from spark_pulsar.cli.output.formats import Format, show
from tests.brokers import Broker

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


SHOWING = """
from spark_pulsar.cli.output.formats import show
show([{"topic": "orders", "backlog": 12}, {"topic": "x" * 100, "backlog": 3}])
"""
WORKING = """
import threading
from spark_pulsar.cli.output.progress import Progress
with Progress("Verifying", 4) as bar:
    bar.update(done=1)
    threading.Event().wait(1.05)
    for done in range(2, 5):
        bar.update(done=done)
print("done")
"""


def on_a_terminal(program: str) -> str:
    """Runs a program with standard output and standard error on a terminal of 80 columns."""
    mine, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", program], stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "xterm"}
        )
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(mine, 65536)
            except OSError:  # Linux, once the other side is closed
                break
            if not part:
                break
            parts.append(part)
        assert process.wait(30) == 0
        return b"".join(parts).decode()
    finally:
        os.close(mine)


def test_a_table_on_a_terminal() -> None:
    shown = on_a_terminal(SHOWING)
    lines = [line for line in shown.splitlines() if line.strip()]
    assert "topic" in lines[0]
    assert "backlog" in lines[0]
    assert any("orders" in line and "12" in line for line in lines)
    assert shown.count("x") == 100, "nothing is cut"


def test_progress_after_a_second_on_a_terminal_alone() -> None:
    assert "Verifying" in on_a_terminal(WORKING)
    piped = subprocess.run([sys.executable, "-c", WORKING], capture_output=True, text=True, check=True)
    assert (piped.stdout, piped.stderr) == ("done\n", "")


def ended(*words: str, redirection: str) -> tuple[int, str]:
    """Runs a command with its standard output redirected; returns its status and its standard error."""
    shell = f'"$0" -m spark_pulsar "$@" {redirection}'
    done = subprocess.run(["sh", "-c", shell, sys.executable, *words], stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("redirection", "reason"),
    [("> /dev/full", "No space left on device"), (">&-", "it is closed")],
    ids=["full", "closed"],
)
def test_one_line_says_that_output_is_lost(broker: Broker, redirection: str, reason: str) -> None:
    topic = broker.topic()
    broker.client().create_producer(topic).send(b"a message")
    for words in (
        ("read", topic, "-u", broker.service_url),
        ("read", topic, "-u", broker.service_url, "--values-only"),
        ("admin", "--admin-url", broker.admin_url, "namespaces", "list", "public"),
        ("version",),
    ):
        said = f"spark-pulsar: standard output takes no more: {reason}\n"
        assert ended(*words, redirection=redirection) == (1, said)
