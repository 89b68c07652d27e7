"""Python of Spark's workers: which one it is, its missing packages, and the driver's own where no setting names one.

Spark starts its workers, and the processes in which it searches for formats, as `PYSPARK_PYTHON` says, else as
`python3`. A script that runs by the path of its environment's Python, with another `python3` on the search path, so
gets workers without the packages that the script itself imports. `choose_own` is called when `spark_pulsar` is imported
and gives such a script workers of its own Python; `check` warns a session whose workers lack something.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from spark_pulsar.connector.errors import RequirementError

LOG: Final = logging.getLogger("spark_pulsar")
LEAST_SPARK: Final = (4, 0)
LEAST: Final[Mapping[str, tuple[int, int]]] = {"numpy": (1, 26), "pyarrow": (15, 0), "protobuf": (4, 25)}
"""Oldest versions that reading and writing run on, as pyproject.toml has them."""
PACKAGES: Final = ("numpy", "pyarrow")
"""Packages that reading and writing need beside `spark_pulsar` itself and what it always depends on."""
_MODULES: Final = {"protobuf": "google.protobuf"}
"""Modules of packages, where they are named otherwise."""
_FOUND_BY_SPARK: Final = ("pyspark_pulsar", *PACKAGES)
"""Modules of an installed spark-pulsar with which Spark finds the format by itself, and can use it."""
_VARIABLE: Final = "PYSPARK_PYTHON"
_CHOSEN_BY: Final = (_VARIABLE, "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_CONNECT_MODE")
"""Variables of a process whose workers another program has chosen, or runs."""
_PROBE_TIMEOUT_S: Final = 30
_PROBE: Final = """
import importlib.util, json, platform, sys
def is_installed(name):
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
def version(name):
    from importlib import metadata
    try:
        return metadata.version(name)
    except Exception:
        return ""
names = dict(name.split("=") for name in sys.argv[1:])
packages = {name: version(name.replace("_", "-")) for name, module in names.items() if is_installed(module)}
print(json.dumps({"executable": sys.executable, "version": platform.python_version(), "packages": packages}))
"""


@dataclass(frozen=True, slots=True)
class WorkerPython:
    """A Python as its answer describes it."""

    command: str
    """The name or path that it is started by."""
    executable: str
    version: str
    packages: Mapping[str, str]
    """Versions of the packages that it finds; empty for a package without metadata."""

    def lacks(self, *names: str) -> list[str]:
        """Returns those of the packages that it does not find."""
        return [name for name in names if name not in self.packages]


def probe(command: str, *names: str) -> WorkerPython | None:
    """Starts a Python that searches for packages; None if it cannot be started on this machine."""
    try:
        done = subprocess.run(
            [command, "-c", _PROBE, *(f"{name}={_MODULES.get(name, name)}" for name in names)],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=True,
        )
        answer = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return WorkerPython(command, answer["executable"], answer["version"], answer["packages"])


def choose_own() -> None:
    """Sets `PYSPARK_PYTHON` to this Python, where spark-pulsar is installed, if the `python3` that Spark would start
    has none (READ-36). Only in a program that may start Spark itself: no setting names a Python, and no session is
    there."""
    if any(name in os.environ for name in _CHOSEN_BY) or _is_sparks() or not sys.executable:
        return
    others = shutil.which("python3")
    if others is None or Path(others).parent == Path(sys.executable).parent or _spark_runs():
        return
    if any(find_spec(name) is None for name in ("pyspark", *_FOUND_BY_SPARK)):
        return
    worker = probe(others, *_FOUND_BY_SPARK)
    if worker is not None and worker.lacks(*_FOUND_BY_SPARK):
        os.environ[_VARIABLE] = sys.executable
        LOG.info("%s is set to %s: %s has no spark-pulsar", _VARIABLE, sys.executable, others)


def _is_sparks() -> bool:
    """Returns whether this process is one of Spark's."""
    arguments = sys.orig_argv[1:3]
    return arguments[:1] == ["-m"] and arguments[-1].startswith("pyspark")


def _spark_runs() -> bool:
    """Returns whether this process has a session, whose workers it is too late to choose."""
    context = getattr(sys.modules.get("pyspark.core.context"), "SparkContext", None)
    return getattr(context, "_gateway", None) is not None


def check(spark: Any, *, is_shipped: bool) -> None:
    """Checks that a session and the Python of its workers can run the connector (READ-37). `is_shipped`: Spark brings
    the package to them by itself. Raises RequirementError, which says what is missing and what to do.

    Workers on other machines, and a server of Spark Connect, cannot be queried here.
    """
    check_spark(spark.version)
    command = getattr(_context(spark), "pythonExec", None)
    worker = None if command is None else probe(command, "spark_pulsar", *LEAST)
    if worker is None:
        return
    where = f"Spark starts its Python workers as {command!r}, which is {worker.executable} (Python {worker.version})"
    if not is_shipped and worker.lacks("spark_pulsar"):
        raise RequirementError(
            f"{where}, without the package spark_pulsar. Activate its environment before the program starts, or set "
            f"PYSPARK_PYTHON={sys.executable} before the session is made, or ship the package with --py-files"
        )
    missing = worker.lacks(*PACKAGES)
    if missing:
        raise RequirementError(f"{where}, without {' and '.join(missing)}: pip install 'spark-pulsar[connector]' there")
    if old := _too_old(worker.packages):
        raise RequirementError(f"{where}, with {_mended(worker.packages, old, worker.executable)}")
    theirs, ours = worker.packages.get("spark_pulsar", ""), _own_version()
    if not is_shipped and theirs and ours and theirs != ours:
        LOG.warning("%s, with spark-pulsar %s; the driver has %s: install the same one", where, theirs, ours)


def check_spark(installed: str) -> None:
    """Raises RequirementError for a version of Spark that is too old."""
    if _numbers(installed) < LEAST_SPARK:
        least = ".".join(map(str, LEAST_SPARK))
        raise RequirementError(
            f"this is Spark {installed}; spark-pulsar needs Spark {least} or newer: pip install 'pyspark>={least}'"
        )


def check_own_packages() -> None:
    """Raises RequirementError where this Python, a worker's, has not what reading and writing need."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise RequirementError(
            f'format("pulsar") needs {" and ".join(missing)}, which {sys.executable} has not: '
            f"{sys.executable} -m pip install 'spark-pulsar[connector]'"
        )


def check_own_versions() -> None:
    """Raises RequirementError where packages of this Python are older than reading and writing run on."""
    from importlib.metadata import PackageNotFoundError, version

    installed: dict[str, str] = {}
    for name in LEAST:
        with contextlib.suppress(PackageNotFoundError):
            installed[name] = version(name)
    if old := _too_old(installed):
        raise RequirementError(f'format("pulsar") finds {_mended(installed, old, sys.executable)}')


def _too_old(installed: Mapping[str, str]) -> list[str]:
    return [name for name, least in LEAST.items() if (0,) < _numbers(installed.get(name, "")) < least]


def _mended(installed: Mapping[str, str], old: list[str], python: str) -> str:
    """Returns the packages that are too old, what they have to be, and the command that installs newer ones."""
    least = {name: ".".join(map(str, LEAST[name])) for name in old}
    needed = " and ".join(f"{name} {installed[name]}, which has to be {least[name]} or newer" for name in old)
    wanted = " ".join(f"'{name}>={least[name]}'" for name in old)
    return f"{needed}: {python} -m pip install {wanted}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def _context(spark: Any) -> Any:
    try:
        return spark.sparkContext
    except Exception:  # noqa: BLE001 a session of Spark Connect refuses in its own way
        return None


def _own_version() -> str:
    from importlib.metadata import PackageNotFoundError, version  # a broker's start is quicker without

    try:
        return version("spark-pulsar")
    except PackageNotFoundError:
        return ""
