"""Python of this command and of Spark's workers, and the packages that each of them has."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import spark_pulsar
from spark_pulsar.cli.doctor.findings import Finding, State
from spark_pulsar.connector.worker_python import PACKAGES, WorkerPython, probe

LEAST_PROTOBUF: Final = (4, 25)
_SPEED: Final = "pip install 'spark-pulsar[fast]': reads and writes are faster"
_CONNECTOR: Final = "pip install 'spark-pulsar[connector]': the connector needs it"
_PACKAGES: Final = {
    "numpy": _CONNECTOR,
    "pyarrow": _CONNECTOR,
    "numba": _SPEED,
    "starlette": "pip install 'spark-pulsar[broker]': a broker here needs it",
    "pulsar-client": "pip install 'spark-pulsar[cli]': produce, consume and bench need it",
}
"""Packages without which something works, but not all."""
_CONF: Final = "spark.pyspark.python"


def check_pythons() -> Iterator[Finding]:
    """Checks this Python, its packages, and the Python of Spark's workers."""
    yield Finding("python", State.OK, f"{platform.python_version()}, {sys.executable}")
    yield Finding("spark-pulsar", State.OK, f"{spark_pulsar.__version__}, {Path(spark_pulsar.__file__).parent}")
    yield _protobuf()
    for name, advice in _PACKAGES.items():
        installed = _version(name)
        yield Finding(name, State.OK, installed) if installed else Finding(name, State.WARN, "not installed", advice)
    if _version("pyspark") or "SPARK_HOME" in os.environ:
        yield _workers(*workers_command())


def workers_command() -> tuple[str, str]:
    """Returns the command by which Spark starts its workers, and what says so."""
    homes = [os.environ.get("SPARK_CONF_DIR", ""), os.path.join(os.environ.get("SPARK_HOME", ""), "conf")]
    for folder in filter(os.path.isabs, homes):
        conf = Path(folder, "spark-defaults.conf")
        for line in conf.read_text(errors="replace").splitlines() if conf.is_file() else ():
            key, _, value = line.strip().replace("=", " ", 1).partition(" ")
            if key == _CONF and value.strip():
                return value.strip(), f"{_CONF} of {conf}"
    chosen = os.environ.get("PYSPARK_PYTHON")
    return (chosen, "PYSPARK_PYTHON") if chosen else ("python3", "the search path")


def _workers(command: str, said_by: str) -> Finding:
    check = "python of Spark's workers"
    worker = probe(command, "spark_pulsar", "pyspark_pulsar", *PACKAGES)
    if worker is None:
        where = shutil.which(command) or "not found"
        return Finding(
            check,
            State.FAIL,
            f"{command} ({said_by}) cannot be started: {where}",
            f"set PYSPARK_PYTHON={sys.executable}",
        )
    text = f"{worker.version}, {worker.executable} ({said_by})"
    missing = worker.lacks("spark_pulsar", *PACKAGES)
    if missing:
        return _lacking(check, worker, text, missing, is_default=said_by == "the search path")
    theirs = worker.packages["spark_pulsar"]
    if theirs and theirs != spark_pulsar.__version__:
        ours = spark_pulsar.__version__
        return Finding(check, State.FAIL, f"{text} has spark-pulsar {theirs}", f"install {ours} there, as here")
    if platform.python_version_tuple()[:2] != tuple(worker.version.split(".")[:2]):
        advice = f"Spark wants one minor version on driver and workers: set PYSPARK_PYTHON={sys.executable}"
        return Finding(check, State.FAIL, text, advice)
    if worker.lacks("pyspark_pulsar"):
        advice = "Spark finds the format in an installed package alone: pip install it there, or spark_pulsar.register"
        return Finding(check, State.WARN, f"{text}: spark_pulsar is there, but not installed", advice)
    return Finding(check, State.OK, text)


def _lacking(check: str, worker: WorkerPython, text: str, missing: list[str], *, is_default: bool) -> Finding:
    lacks = f"{text} has no {' and no '.join(missing)}"
    if not is_default:
        return Finding(check, State.FAIL, lacks, f"install spark-pulsar there, or set PYSPARK_PYTHON={sys.executable}")
    advice = (
        f"activate the environment, or set PYSPARK_PYTHON={sys.executable}; a program of {sys.executable} that imports "
        "spark_pulsar before it makes its session gets that by itself"
    )
    return Finding(check, State.WARN, lacks, advice)


def _protobuf() -> Finding:
    installed = _version("protobuf")
    numbers = tuple(int(part) for part in installed.split(".")[:2] if part.isdigit())
    if numbers >= LEAST_PROTOBUF:
        return Finding("protobuf", State.OK, installed)
    return Finding("protobuf", State.FAIL, installed or "not installed", "pip install 'protobuf>=4.25'")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
