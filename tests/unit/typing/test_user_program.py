"""Type checkers of users see the package's types."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import spark_pulsar

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
from typing import assert_type

import spark_pulsar

with spark_pulsar.broker_process(token=True) as broker:
    assert_type(broker, spark_pulsar.BrokerProcess)
    assert_type(broker.service_url, str)
assert_type(spark_pulsar.__version__, str)
assert_type(spark_pulsar.starting_offsets({"topic": b""}, after=True), str)
spark_pulsar.broker_process(tokens=True)  # error
spark_pulsar.brokers  # error
"""


def test_a_users_program_is_checked(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    # With the settings of `make check`, whose cache has the package then.
    command = [sys.executable, "-m", "mypy", str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    # The cache keeps errors, too, under the path that the program had in an earlier run.
    reported = [Path(line.partition(": error:")[0]).name for line in done.stdout.splitlines() if ": error:" in line]
    wrong = [number for number, line in enumerate(PROGRAM.splitlines(), start=1) if line.endswith("# error")]
    assert reported == [f"program.py:{number}" for number in wrong], done.stdout


def test_the_stub_has_what_the_package_has() -> None:
    stub = ast.parse((ROOT / "spark_pulsar" / "__init__.pyi").read_text())
    found: dict[str, str] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):
            found |= {each.name: str(node.module) for each in node.names}
    assert found == spark_pulsar._LAZY
    assert sorted([*found, "__version__"]) == sorted(spark_pulsar.__all__)
    for name in found:
        assert getattr(spark_pulsar, name).__module__.startswith("spark_pulsar")


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert spark_pulsar.__version__ == project["version"]
