"""The commands as one tree: help, completion, mistakes, and ends without a word."""

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from tests.brokers import Broker

MODULE = [sys.executable, "-m", "spark_pulsar"]


def completed(words: str) -> list[str]:
    """Completes the last of these words, as bash asks for it."""
    env = {"_SPARK_PULSAR_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    return CliRunner().invoke(app, [], prog_name="spark-pulsar", env=env).output.split()


def test_the_module_is_the_command() -> None:
    done = subprocess.run([*MODULE, "--version"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"spark-pulsar {version('spark-pulsar')}\n", "")


@pytest.mark.parametrize("path", ["", "broker", "config show", "admin", "admin topics stats", "tokens create"])
def test_help_by_its_short_name(path: str) -> None:
    done = CliRunner().invoke(app, [*path.split(), "-h"], prog_name="spark-pulsar")
    assert done.exit_code == 0
    assert f"Usage: spark-pulsar {path}".strip() in done.stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("spark-pulsar adm", ["admin"]),
        ("spark-pulsar admin topicP", ["topicPolicies"]),
        ("spark-pulsar admin topics terminat", ["terminate"]),
        ("spark-pulsar admin topics create-subscription --mess", ["--messageId"]),
        ("spark-pulsar tokens create-k", ["create-key-pair"]),
        ("spark-pulsar broker --data", ["--data-dir"]),
    ],
)
def test_completion_reaches_every_group(words: str, found: list[str]) -> None:
    assert completed(words) == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_of_completion(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer._completion_shared._get_shell_name", lambda: shell, raising=False)
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: shell, raising=False)
    done = CliRunner().invoke(app, ["--show-completion"], prog_name="spark-pulsar")
    assert done.exit_code == 0
    assert "_SPARK_PULSAR_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("nope", "spark-pulsar: No such command 'nope'; see spark-pulsar --help"),
        (
            "admin topics terminat",
            "spark-pulsar admin topics: No such command 'terminat'. Did you mean 'terminate', 'truncate', "
            "'create'?; see spark-pulsar admin topics --help",
        ),
        ("produce", "spark-pulsar produce: Missing argument 'TOPIC'; see spark-pulsar produce --help"),
        (
            "produce t -p x",
            "spark-pulsar produce: Invalid value for --property: want NAME=VALUE, got 'x'; see spark-pulsar produce "
            "--help",
        ),
    ],
)
def test_mistakes_are_one_line(words: str, line: str) -> None:
    done = CliRunner().invoke(app, words.split(), prog_name="spark-pulsar")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(line.partition(". Did")[0])
    assert (done.stderr.count("\n"), done.stderr.endswith("--help\n")) == (1, True)


@pytest.mark.parametrize("words", ["admin namespaces --help", "config show", "version"])
def test_a_reader_that_goes_away(words: str) -> None:
    command = [*MODULE, *words.split()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_ctrl_c_while_something_is_asked_for() -> None:
    program = (
        "import os, signal\n"
        "from spark_pulsar.cli.main import app\n"
        "from spark_pulsar.cli.messages import produce\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a job in the background ignores it
        "produce.produce = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT)\n"
        "app(['produce', 't', '-m', 'x'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, "", "")


def test_ctrl_c_while_a_command_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    program = (
        "import os, signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nos.execv(sys.argv[1], sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *MODULE, "version"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("produce t hello", "extra argument(s) (hello): a text follows -m, a file with lines follows --lines; see "),
        ("consume t -s x --timeout 9e20", "Input should be less than or equal to 2000000"),
        (f"read t -n {'9' * 26}", "Input should be less than or equal to 9223372036854775807"),
        (f"read t --from -{'9' * 26}y", "is out of range: want at most 9223372036854775"),
        (f"produce t -m x --delay {'9' * 26}d", "is out of range"),
        ("bench produce t --size 9999G", "want 0 to 1073741824 bytes, got '9999G'"),
        ("bench produce t --time 9999y", "want a time such as 30s"),
        (f"admin namespaces set-retention public/default -s {'9' * 26}T -t 1d", "is out of range"),
    ],
)
def test_numbers_that_are_too_large_are_one_line(words: str, part: str) -> None:
    done = CliRunner().invoke(app, words.split(), prog_name="spark-pulsar")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
    assert part in done.stderr


def test_a_broker_loads_no_command_but_its_own() -> None:
    program = (
        "import sys, spark_pulsar.cli.main\n"
        "heavy = {'rich', 'pulsar', 'numpy', 'pyarrow', 'yaml', 'spark_pulsar.cli.admin.app', 'http.client'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    "command", ["consume --url {broker.service_url} -s s", "admin --admin-url {broker.admin_url} topics stats"]
)
def test_topics_of_the_broker(broker: Broker, command: str) -> None:
    full = broker.topic()
    short = full.rpartition("/")[2]
    where = ("admin", "--admin-url", broker.admin_url, "topics")
    assert CliRunner().invoke(app, [*where, "create-partitioned-topic", f"{full}-parted", "-p", "2"]).exit_code == 0
    asked = command.format(broker=broker)
    assert completed(f"spark-pulsar {asked} {short}") == [f"{short}-parted"]
    assert completed(f"spark-pulsar {asked} public/default/{short}") == [f"public/default/{short}-parted"]
    assert completed(f"spark-pulsar {asked} {full}") == [f"{full}-parted"]
    assert completed(f"spark-pulsar {asked} nowhere/at/all") == []


@pytest.mark.parametrize("command", ["consume -s s -u pulsar://127.0.0.1:1", "admin --admin-url nonsense topics stats"])
def test_no_broker_completes_nothing_soon(command: str) -> None:
    begun = time.monotonic()
    assert completed(f"spark-pulsar {command} or") == []
    assert time.monotonic() - begun < 10
