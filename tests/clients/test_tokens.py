"""`spark-pulsar tokens` and Apache's own `pulsar tokens`: keys and tokens of each are good for the other."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_pulsar.cli.tokens.app import app
from tests.apache_pulsar.start import class_path

TOOL = "org.apache.pulsar.utils.auth.tokens.TokensCliUtils"
Tool = Callable[..., str]


def theirs(*words: str) -> str:
    """Runs a command of `pulsar tokens`; what it printed."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-classpath", class_path(), TOOL, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def ours(*words: str) -> str:
    """Runs a command of `spark-pulsar tokens`; what it printed."""
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


@pytest.mark.parametrize(("maker", "user"), [(ours, theirs), (theirs, ours)], ids=["ours", "theirs"])
def test_keys_and_tokens_are_good_for_the_other_tool(tmp_path: Path, maker: Tool, user: Tool) -> None:
    # covers SEC-80, SEC-81
    secret, private, public = (str(tmp_path / name) for name in ("secret", "private", "public"))
    maker("create-secret-key", "-o", secret)
    maker("create-key-pair", "-a", "ES256", "--output-private-key", private, "--output-public-key", public)
    token = maker("create", "-sk", secret, "-s", "me", "-e", "1h", "-hs", "kid=a")
    assert user("validate", "-sk", secret, token) == maker("validate", "-sk", secret, token)
    assert user("show", token).splitlines()[1:] == maker("show", token).splitlines()[1:]
    by_user = user("create", "-pk", private, "-a", "ES256", "-s", "me")
    assert maker("validate", "-pk", f"file://{public}", "-a", "ES256", by_user) == "{sub=me}"
