"""Apache's own `pulsar-admin` 4.0.8, unmodified: many commands in one Java process, by the shell that it comes with."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.apache_pulsar.start import CACHE, VERSIONS, resolved_class_path

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 240
_BEGIN = re.compile(r"^\[\d+/\d+\] Executing admin (.*)$", re.MULTILINE)
_END = "\nGoodbye!"


@dataclass(frozen=True, slots=True)
class Done:
    """A command and what it printed, standard output and standard error together, without blanks around."""

    command: str
    printed: str


def run(admin_url: str, commands: Iterable[str], scratch: Path, more: str = "") -> list[Done]:
    """Run commands of `pulsar-admin` one after the other; those that fail do not end the run. `more`: lines of its
    `client.conf`."""
    conf, script = scratch / "client.conf", scratch / "commands"
    conf.write_text(f"webServiceUrl={admin_url}\n{more}")
    script.write_text("".join(f"admin {command}\n" for command in commands))
    remembered_in = CACHE / f"{VERSIONS[0]}-client-tools.classpath"
    tools = resolved_class_path("the command line tools of Apache Pulsar", HERE / "pom.xml", remembered_in)
    java = ["java", "-XX:TieredStopAtLevel=1", f"-Duser.home={scratch}", "-classpath", tools]
    shell = ["org.apache.pulsar.shell.PulsarShell", "--config", str(conf), "--filename", str(script), "--no-progress"]
    done = subprocess.run(
        [*java, *shell], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout
    pieces = _BEGIN.split(done.stdout.rpartition(_END)[0])[1:]
    return [Done(command.strip(), text.strip()) for command, text in zip(pieces[0::2], pieces[1::2], strict=True)]
