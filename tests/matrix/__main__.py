"""The wheel in environments of their own: versions of Python, Spark and protobuf, and the smallest installation.

    python -m tests.matrix [ROW …]

Each row is an environment in a directory that goes away: the wheel is installed with its extras, then a broker of that
environment serves the official client and, where the row has Spark, a batch write, a batch read and a streaming copy. A
Python that this machine lacks is named and left out. The rows are pairs that matter, not all that could be combined.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "matrix"
LIGHT_BYTES = 80_000_000
HEAVY = ("numpy", "pyarrow", "numba", "pulsar", "fastavro", "uvloop")
STEP_TIMEOUT_S = 600


@dataclass(frozen=True)
class Row:
    """One environment."""

    name: str
    python: str
    extras: str
    pins: tuple[str, ...] = field(default=())


ROWS = (
    Row("broker-alone", "3.11", "broker"),
    Row("protobuf-4.25", "3.11", "spark,broker", ("protobuf==4.25.*", "pyspark==4.2.*")),
    Row("protobuf-5.29", "3.12", "spark,broker", ("protobuf==5.29.*", "pyspark==4.2.*")),
    Row("protobuf-6.33", "3.13", "spark,broker,fast", ("protobuf==6.33.*",)),
    Row("protobuf-7", "3.12", "spark,broker,fast", ("protobuf==7.*",)),
    Row("python-3.14", "3.14", "spark,broker,fast"),
)


class Failed(Exception):
    """A step that did not end well; the message holds what it said."""


def find_python(version: str) -> str | None:
    """Looks for a Python of this version in PATH and among those of pyenv."""
    found = [shutil.which(f"python{version}") or ""]
    found += [str(each) for each in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))]
    for python in filter(None, [sys.executable, *found]):
        said = subprocess.run(
            [python, "-c", "import sys, ensurepip; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if said.stdout.strip() == version:
            return python
    return None


def run(*command: str | Path) -> str:
    """Runs a step outside the checkout, and returns what it prints. Raises Failed."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))}
    done = subprocess.run(
        [str(each) for each in command],
        cwd=tempfile.gettempdir(),
        env=surroundings | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=STEP_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{command[0]} … {command[-1]}\n" + "\n".join(done.stdout.splitlines()[-30:]))
    return done.stdout


def size_bytes(directory: Path) -> int:
    """The bytes of all files."""
    return sum(each.lstat().st_size for each in directory.rglob("*") if not each.is_dir())


@contextmanager
def broker(python: Path, directory: Path) -> Iterator[tuple[str, str]]:
    """Runs a broker of the environment; yields its service URL and its admin URL."""
    command = [str(python.with_name("spark-pulsar")), "broker", "--data-dir", str(directory / "data")]
    log = directory / "broker.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [*command, "--port", "0", "--http-port", "0"],
            cwd=directory,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            if not words or words[0] != "ready":
                raise Failed(f"the broker did not start\n{log.read_text()}")
            yield words[1], words[2]
        finally:
            process.terminate()
            process.wait(60)


def check_row(row: Row, python: str, wheel: Path, directory: Path) -> str:
    """Makes the environment and uses it; returns figures of it. Raises Failed."""
    run(python, "-m", "venv", directory / "venv")
    own = directory / "venv" / "bin" / "python"
    run(own, "-m", "pip", "install", "-q", f"{wheel}[{row.extras}]", *row.pins)
    size = size_bytes(directory / "venv")
    run(own, "-c", "import spark_pulsar.wire.protocol.frames, spark_pulsar.cli.main")
    if row.extras == "broker":
        look = f"from importlib.util import find_spec; print([n for n in {HEAVY} if find_spec(n)])"
        if run(own, "-c", look).strip() != "[]" or size > LIGHT_BYTES:
            raise Failed(f"an environment of {size / 1e6:.0f} MB with {run(own, '-c', look).strip()}")
    admin = own.with_name("spark-pulsar")
    with broker(own, directory) as (service_url, admin_url):
        run(sys.executable, HERE / "check_messages.py", service_url)
        topics = run(admin, "admin", "--admin-url", admin_url, "topics", "list", "public/default")
        for topic in filter(None, topics.split()):
            run(admin, "admin", "--admin-url", admin_url, "topics", "compact", topic)
            with urllib.request.urlopen(
                f"{admin_url}/admin/v2/{topic.replace('://', '/')}/stats", timeout=60
            ) as answer:
                assert answer.status == 200
        if "spark" in row.extras:
            run(own, HERE / "check_connector.py", service_url)
    run(admin, "check", directory / "data")
    return f"{size / 1e6:.0f} MB"


def build_wheel(directory: Path) -> Path:
    """Builds the wheel of this checkout."""
    run(
        sys.executable,
        "-c",
        f"import os; os.chdir({str(ROOT)!r}); from hatchling.builders.wheel import WheelBuilder; "
        f"list(WheelBuilder('.').build(directory={str(directory)!r}, versions=['standard']))",
    )
    return next(directory.glob("*.whl"))


def main(names: list[str]) -> int:
    """Runs the rows, one after the other; 1 when one of them failed."""
    status = 0
    with tempfile.TemporaryDirectory(prefix="spark-pulsar-matrix-") as place:
        wheel = build_wheel(Path(place))
        for row in ROWS:
            if names and row.name not in names:
                continue
            label = f"{row.name}: Python {row.python}, [{row.extras}] {' '.join(row.pins)}".rstrip()
            python = find_python(row.python)
            if python is None:
                print(f"skipped  {label}: this machine has no Python {row.python}", flush=True)
                continue
            directory, began = Path(place, row.name), time.monotonic()
            directory.mkdir()
            try:
                figures = check_row(row, python, wheel, directory)
                print(f"passed   {label}: {figures}, {time.monotonic() - began:.0f} s", flush=True)
            except (Failed, subprocess.TimeoutExpired) as error:
                status = 1
                print(f"FAILED   {label}: {error}", flush=True)
            shutil.rmtree(directory)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
