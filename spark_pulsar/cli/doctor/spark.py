"""Spark and Java, by their versions alone: no Spark is started."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from spark_pulsar.cli.doctor.findings import Finding, State
from spark_pulsar.connector.errors import RequirementError
from spark_pulsar.connector.worker_python import check_spark

LEAST_JAVA: Final = 17
_JAVA_TIMEOUT_S: Final = 20
_RELEASE: Final = re.compile(r"^Spark (\d[\w.-]*)")
_JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)[^"]*"')
_ONLY_SPARK: Final = "broker and commands need none"


def check_spark_and_java() -> Iterator[Finding]:
    """Checks the versions of Spark and Java."""
    installed = _spark()
    if installed is None:
        advice = f"pip install 'spark-pulsar[spark]' for the connector; {_ONLY_SPARK}"
        yield Finding("spark", State.WARN, "not installed", advice)
    else:
        yield _judged(*installed)
    yield _java(is_needed=installed is not None)


def _spark() -> tuple[str, str] | None:
    """Returns Spark's version and its place."""
    home = os.environ.get("SPARK_HOME")
    release = Path(home, "RELEASE") if home else None
    if release is not None and release.is_file():
        match = _RELEASE.match(release.read_text(errors="replace"))
        if match is not None:
            return match[1], f"SPARK_HOME {home}"
    try:
        return version("pyspark"), "the package pyspark"
    except PackageNotFoundError:
        return None


def _judged(installed: str, place: str) -> Finding:
    try:
        check_spark(installed)
    except RequirementError as error:
        return Finding("spark", State.FAIL, f"{installed}, {place}", str(error))
    return Finding("spark", State.OK, f"{installed}, {place}")


def _java(*, is_needed: bool) -> Finding:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else "java"
    advice = f"install Java {LEAST_JAVA} or newer (Debian and Ubuntu: apt-get install openjdk-17-jre-headless)"
    missing = State.FAIL if is_needed else State.WARN
    try:
        done = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        text = f"{command} cannot be started" if home else "not found"
        return Finding("java", missing, text, f"{advice}; Spark needs it, {_ONLY_SPARK}")
    match = _JAVA_VERSION.search(done.stderr + done.stdout)
    if match is None:
        return Finding("java", State.WARN, f"{command} does not print its version", advice)
    state = State.OK if int(match[1]) >= LEAST_JAVA else missing
    return Finding("java", state, f"{match[1]}, {command}", "" if state is State.OK else advice)
