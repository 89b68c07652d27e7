"""Commands that a finding advises: each is one that the command line takes."""

from __future__ import annotations

import re
import shlex

from typer.testing import CliRunner

from spark_pulsar.cli.main import app

NOWHERE = {"PULSAR_ADMIN_URL": "http://127.0.0.1:1"}


def check_commands(advice: str) -> int:
    """Runs the commands of an advice against no broker; returns their number. A usage error would be status 2."""
    commands = re.findall(r"spark-pulsar ([^;]*)", advice)
    for command in commands:
        done = CliRunner().invoke(app, shlex.split(command), env=NOWHERE)
        assert done.exit_code == 1, f"spark-pulsar {command}: {done.output}"
        assert "no answer from http://127.0.0.1:1" in done.stderr, done.stderr
    return len(commands)
