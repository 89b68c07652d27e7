"""Control characters of strangers: no command lets one out, whatever a broker answers and whatever a file holds."""

import base64
import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from spark_pulsar.cli.admin.app import app as admin_app
from spark_pulsar.cli.admin.command import Command
from spark_pulsar.cli.admin.table import COMMANDS
from spark_pulsar.cli.main import app
from spark_pulsar.cli.output.terminal import printable_streams
from tests.architecture.sources import PACKAGE, package_files, relative
from tests.unit.cli.answering_server import AnsweringServer

HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x9b2J\x9d52;c;eA==\x9c\x85\u202edaer\u2066\x7f\r\x00end"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
OBJECTS = json.dumps(
    {HOSTILE: HOSTILE, "a": {HOSTILE: [HOSTILE]}, "type": "STRING", "data": HOSTILE, "version": 1}, ensure_ascii=False
)
ANSWERS = {
    "refusal": (400, json.dumps({"reason": HOSTILE})),
    "bare refusal": (418, HOSTILE),
    "object": (200, OBJECTS),
    "objects": (200, f"[{OBJECTS}]"),
    "texts": (200, json.dumps([HOSTILE, "b"])),
    "text": (200, HOSTILE),
}
IDS = {"position": "1:2", "message_id": "1:2", "bundle": "0x00000000_0xffffffff"}
FORMS = (None, "table", "text", "json", "yaml")


@pytest.fixture(scope="module")
def hostile() -> Iterator[AnsweringServer]:
    broker = AnsweringServer()
    broker.sent_headers = {"Warning": '299 - "\x1b]0;owned\x07\x9b31m"', "X-Pulsar-PROPERTY-\x9b31m": "\x1b[31m"}
    yield broker
    broker.close()


def check(done: Result, words: object) -> None:
    for text in (done.stdout, done.stderr):
        assert CONTROL.search(text) is None, (words, text)


def sample(parameter: Any) -> str:
    """A value that a parameter takes."""
    name, kind = str(parameter.name).lower(), parameter.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        return str(next(iter(kind)).value)
    if kind in (int, float):
        return str(max(1, parameter.min or 1))
    if parameter.metavar == "NAMESPACE" or "namespace" in name:
        return "public/default"
    if "time" in name or "ttl" in name or "age" in name or "duration" in name or "period" in name:
        return "10m"
    return IDS.get(name, "1")


def admin_commands(admin: Any) -> Iterator[tuple[Command, list[str]]]:
    """Each command of `spark-pulsar admin`, with a value for each parameter that must be given."""
    for row in COMMANDS:
        group, _, name = row.name.partition(" ")
        words = [group, name]
        for parameter in admin.commands[group].commands[name].params:
            if parameter.required:
                flag = [parameter.opts[0]] if parameter.param_type_name == "option" else []
                words += [*flag, sample(parameter)]
            elif parameter.name == "force":
                words.append(parameter.opts[0])
        yield row, words


@pytest.mark.long
def test_no_command_of_admin_lets_a_control_character_out(hostile: AnsweringServer) -> None:
    admin: Any = typer.main.get_command(admin_app)  # made once: it is large
    reached: set[str] = set()
    for row, words in admin_commands(admin):
        for number, answer in enumerate(ANSWERS.values()):
            hostile.answer, before = answer, len(hostile.asked)
            form = FORMS[number % len(FORMS)] if row.is_shown else None
            out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
            with redirect_stdout(out), redirect_stderr(err), printable_streams(), suppress(Exception, SystemExit):
                # A failure at an answer of a strange shape is none of this test.
                admin.main(["--admin-url", hostile.url, *words, *(["-o", form] if form else [])], "admin")
            for stream in (out, err):
                stream.flush()
                text = stream.buffer.getvalue().decode()
                assert CONTROL.search(text) is None, (words, text)
            if len(hostile.asked) > before:
                reached.add(row.name)
    missing = {row.name for row in COMMANDS} - reached
    assert len(missing) < len(COMMANDS) / 10, missing  # those that want one of several options


@pytest.mark.parametrize("words", [("topics", "tree"), ("top", "-n", "1"), ("config", "list"), ("config", "get", "x")])
def test_no_other_command_does(hostile: AnsweringServer, words: tuple[str, ...]) -> None:
    before = len(hostile.asked)
    for answer in ANSWERS.values():
        hostile.answer = answer
        for form in FORMS:
            more = ["-o", form] if form else []
            check(CliRunner().invoke(app, [*words, "--admin-url", hostile.url, *more]), words)
    assert len(hostile.asked) > before


def test_the_doctor_does_not(hostile: AnsweringServer) -> None:
    hostile.answer = ANSWERS["refusal"]
    words = ["doctor", "--admin-url", hostile.url, "-u", hostile.url.replace("http", "pulsar"), "-o"]
    for form in ("table", "json"):
        check(CliRunner().invoke(app, [*words, form]), words)


def test_values_are_whole_in_json_and_yaml(hostile: AnsweringServer) -> None:
    hostile.answer = ANSWERS["objects"]
    words = ["admin", "--admin-url", hostile.url, "tenants", "list", "-o"]
    assert json.loads(CliRunner().invoke(app, [*words, "json"]).stdout) == json.loads(f"[{OBJECTS}]")
    assert yaml.safe_load(CliRunner().invoke(app, [*words, "yaml"]).stdout) == json.loads(f"[{OBJECTS}]")


def test_what_users_were_given_to_type_does_not(tmp_path: Path) -> None:
    """Arguments, files and tokens come from strangers, too."""
    conf = tmp_path / "broker.conf"
    conf.write_text(f"{HOSTILE.replace(chr(13), '').replace(chr(0x85), '')}=1\nwebServicePort={HOSTILE}\n")
    parts = [json.dumps({HOSTILE: HOSTILE}, ensure_ascii=False).encode()] * 2
    token = ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), "x"])
    argument = HOSTILE.replace("\x00", "")
    for words in (
        ["tokens", "show", token],
        *(["tokens", "show", token, "-o", form] for form in ("text", "table", "json", "yaml")),
        ["tokens", "validate", token, "-sk", argument],
        ["broker", "--conf", str(conf)],
        ["broker", "--conf", argument],
        ["config", "show", "--conf", str(conf)],
        ["profile", "add", argument, "--service-url", argument],
        ["profile", "show", argument],
        ["profile", "remove", argument],
        ["check", argument],
        ["produce", argument, "-m", "x", "-u", "pulsar://127.0.0.1:1"],
        ["consume", argument, "-s", argument, "-u", "pulsar://127.0.0.1:1"],
        ["read", argument, "-u", argument],
        ["bench", "produce", argument, "-u", "pulsar://127.0.0.1:1"],
        ["admin", argument],
        [argument],
        ["topics", argument],
        ["read", "a", f"--{argument}"],
    ):
        done = CliRunner(env={"XDG_CONFIG_HOME": str(tmp_path)}).invoke(app, words)
        check(done, words)
        assert done.stdout + done.stderr, words


def test_nothing_goes_round_the_streams() -> None:
    """One way out: consoles of rich are made in one place, and bytes go to `buffer` where a rule says so."""
    around = re.compile(r"\bConsole\(|__std(out|err)__|/dev/std|os\.write\((1|2)\b|\.buffer\b")
    found = {
        relative(path).removeprefix("spark_pulsar/cli/")
        for path in package_files()
        if path.is_relative_to(PACKAGE / "cli") and around.search(path.read_text())
    }
    assert found == {"output/terminal.py", "messages/printing.py", "messages/sources.py", "tokens/app.py"}
