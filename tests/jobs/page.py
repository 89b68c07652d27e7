"""The commands of docs/jobs.md, as they stand but for addresses, and what the page shows of what they print."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import spark_pulsar
from tests.jobs.submitting import succeed

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMEOUT_S = 560
VARIES = re.compile(r"\d+\.\d s|\d:\d\d:\d\d")
"""What a run takes, or when a kill happens."""


@dataclass(frozen=True)
class Command:
    """Commands of one block, and what they print."""

    text: str
    output: str

    def __str__(self) -> str:
        return " ".join(re.findall(r"(?:jobs/|spark-)(\w+)", self.text)[-1:])


def commands() -> list[Command]:
    """Returns what the page runs."""
    blocks = BLOCK.findall((ROOT / "docs/jobs.md").read_text())
    following = [*blocks[1:], ("", "")]
    return [
        Command(text, "" if next_kind else output)
        for (kind, text), (next_kind, output) in zip(blocks, following, strict=True)
        if kind == "bash"
    ]


SETTINGS, *COMMANDS = commands()
ONWARDS = next(place for place, command in enumerate(COMMANDS) if "exactly_once_etl" in command.text)
"""Commands from here on need the flights of the first command alone: they run beside the others, on a broker of their
own."""


class Shell:
    """A user's shell in the project's folder, beside a broker and a cluster."""

    def __init__(self, folder: Path, broker: spark_pulsar.BrokerProcess, cluster: spark_pulsar.BrokerProcess) -> None:
        self._folder = folder
        self._brokers = (broker, cluster)
        self._addresses = {
            "pulsar://127.0.0.1:6650": broker.service_url,
            "http://127.0.0.1:8080": broker.admin_url,
            "pulsar://cluster:6650": cluster.service_url,
            "http://cluster:8080": cluster.admin_url,
        }

    def run(self, command: Command) -> str:
        """Runs the commands of a block to their end and returns what they print.

        One that fails leaves neither topics nor files, so that a second try finds what the first one found.
        """
        topics, files = self._topics(), self._files()
        try:
            return succeed(["bash", "-c", self._text(command)], self._environment(), self._folder, TIMEOUT_S)
        except BaseException:
            for broker, name in self._topics() - topics:
                broker.admin().delete_topic(name, force=True)
            for path in self._files() - files:
                shutil.rmtree(path)
            raise

    def _text(self, command: Command) -> str:
        exports = [line for line in SETTINGS.text.splitlines() if line.startswith("export ")]
        text = "\n".join(["set -euo pipefail", *exports, command.text])
        for shown, real in self._addresses.items():
            text = text.replace(shown, real)
        broker = self._addresses["pulsar://127.0.0.1:6650"]
        text = re.sub(r"jobs/topic_copy\.py", rf"\g<0> --source-url {broker}", text)
        return re.sub(r"jobs/(?!topic_copy)\w+\.py", rf"\g<0> --service-url {broker}", text)

    def _environment(self) -> dict[str, str]:
        chosen = ("PYSPARK_", "SPARK_HOME", "SPARK_CONF_DIR")
        env = {name: value for name, value in os.environ.items() if not name.startswith(chosen)}
        return env | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}",
            "PULSAR_SERVICE_URL": self._addresses["pulsar://127.0.0.1:6650"],
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def _topics(self) -> set[tuple[spark_pulsar.BrokerProcess, str]]:
        return {(broker, name) for broker in self._brokers for name in broker.admin().topics()}

    def _files(self) -> set[Path]:
        return set((self._folder / "data").glob("*"))


def lines(text: str) -> list[str]:
    """Returns what lines say, without rulers and times."""
    words = (" ".join(re.sub(r"[^\w\s.,:/()≥-]", " ", VARIES.sub("T", line)).split()) for line in text.splitlines())
    return [line for line in words if line]


def missing(shell: Shell, command: Command) -> list[str]:
    """Runs a command and returns the lines of the page that it did not print."""
    printed = lines(shell.run(command))
    return [line for line in lines(command.output) if line not in ("…", "") and line not in printed]
