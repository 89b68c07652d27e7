"""Help of every command and group at 80 columns: no flag is cut, two examples that the parser takes."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from spark_pulsar.cli.main import app

WIDTH = 80
EXAMPLES = re.compile(r"^Examples:\n((?:  .*(?:\n|$))+)", re.MULTILINE)


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))


def contexts(command: Any, name: str, parent: Any = None) -> Iterator[Any]:
    """Contexts of a command and of all below it that its help lists."""
    context = command.make_context(name, [], parent=parent, resilient_parsing=True)
    yield context
    group = context.command
    if isinstance(group, TyperGroup):
        for below in group.list_commands(context):
            if not group.get_command(context, below).hidden:
                yield from contexts(group.get_command(context, below), below, context)


ROOT = typer.main.get_command(app)
ALL = list(contexts(ROOT, "spark-pulsar"))


def test_every_number_has_a_greatest() -> None:
    unbounded = [
        f"{context.command_path} {parameter.name}"
        for context in ALL
        if not context.command_path.startswith("spark-pulsar admin ")  # whose broker checks its numbers
        for parameter in context.command.params
        if getattr(getattr(parameter, "type_descriptor", None), "annotation", None) in (int, float)
        if parameter.max is None
    ]
    assert unbounded == []


def test_the_help_of_every_command_is_whole_at_80_columns() -> None:
    # covers ADM-76
    assert len(ALL) > 450
    for context in ALL:
        text = context.command.get_help(context)
        assert [line for line in text.splitlines() if len(line.rstrip()) > WIDTH] == [], context.command_path
        for parameter in context.command.get_params(context):
            if parameter.param_type_name == "option" and not parameter.hidden:
                for name in (*parameter.opts, *parameter.secondary_opts):
                    assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text), (context.command_path, name)
        assert not re.search(r"[<>]=|\d{10}| range>", text), f"{context.command_path} has a range as a formula"
        assert "…\n" not in text.replace("3h …, ", "").replace("5m ….", "")


def test_ranges_are_in_words() -> None:
    # covers ADM-76
    texts = {context.command_path: context.command.get_help(context).split() for context in ALL[:40]}
    for path, flag, words in (("read", "--count", "[default: 0; 0 or more]"), ("broker", "--port", "0 to 65535]")):
        text = " ".join(texts[f"spark-pulsar {path}"])
        assert f"{flag} <int>" in text
        assert words in text[text.index(f"{flag} <int>") :]


def test_every_help_has_two_examples_that_the_parser_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers ADM-76
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("pulsar").mkdir()
    for name in ("broker.conf", "prod.token", "schema.json"):
        tmp_path.joinpath(name).touch()
    for context in ALL:
        examples = EXAMPLES.search(context.command.get_help(context))
        assert examples, context.command_path
        lines = examples[1].replace(" \\\n      ", " ").splitlines()
        assert len(set(lines)) == 2, (context.command_path, lines)
        for line in lines:
            for command in line.split(" | "):
                parse(shlex.split(command.replace("~", str(tmp_path))), line)


def parse(words: list[str], line: str) -> None:
    """Parses a command line, and runs nothing of it."""
    assert words.pop(0) == "spark-pulsar", line
    command, parent, name = ROOT, None, "spark-pulsar"
    while True:
        context = command.make_context(name, words, parent=parent)
        group = context.command
        if not isinstance(group, TyperGroup):
            return
        name, command, words = group.resolve_command(context, [*context._protected_args, *context.args])
        parent = context


@pytest.mark.parametrize(
    "words", ["--help", "admin topics --help", "profile list -o table", "doctor -o table", "version"]
)
def test_an_output_that_takes_no_more_is_one_line(words: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "spark_pulsar", *shlex.split(words)], stdout=full, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr.count(b"\n")) == (1, 1), done.stderr
    assert b"standard output takes no more: No space left on device" in done.stderr
