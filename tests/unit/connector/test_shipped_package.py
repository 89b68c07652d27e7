"""A data source from an archive is loaded by a process that has not the archive on its path."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyspark import cloudpickle

from spark_pulsar.connector.shipped_package import shipped_archive
from spark_pulsar.connector.source import PulsarDataSource

ROOT = Path(__file__).parents[3]
OPTIONS = {"service.url": "pulsar://localhost:6650", "topic": "t"}

# As Spark: the class is registered by the driver, its object made by a planner and loaded by the source's own process.
MAKE = f"""
import sys
from pyspark import cloudpickle
from spark_pulsar.connector.source import PulsarPyDataSource
sys.stdout.buffer.write(cloudpickle.dumps(PulsarPyDataSource({OPTIONS})))
"""
LOAD = """
import pathlib, pickle, sys
sys.path[:] = [each for each in sys.path if not (pathlib.Path(each or ".") / "spark_pulsar").exists()]
try:
    import spark_pulsar
except ImportError:
    pass
else:
    raise SystemExit("it can be imported here anyway")
source = pickle.loads(sys.stdin.buffer.read())
import spark_pulsar
print(spark_pulsar.__file__, type(source).__module__, type(source).__name__, dict(source.options))
"""


def run(program: str, directory: Path, path: str, given: bytes = b"") -> bytes:
    """What a program prints, in a process with its own search path."""
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        env=env,
        input=given,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The package in a .zip, as `--py-files` takes it."""
    made = tmp_path / "made"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "spark_pulsar", made / "spark_pulsar", ignore=ignored)
    path = Path(shutil.make_archive(str(tmp_path / "shipped"), "zip", made))
    assert zipfile.is_zipfile(path)
    shutil.rmtree(made)
    return path


def test_it_brings_its_archive(tmp_path: Path, archive: Path) -> None:
    pickled = run(MAKE, tmp_path, str(archive))
    shown = run(LOAD, tmp_path, "", pickled).decode()
    assert shown.startswith(f"{archive}/spark_pulsar/__init__.py spark_pulsar.connector.source PulsarPyDataSource")
    assert str(OPTIONS) in shown


def test_an_installed_one_is_named_only() -> None:
    assert shipped_archive() is None
    pickled = cloudpickle.dumps(PulsarDataSource(OPTIONS))
    assert b"load" not in pickled
    assert pickle.loads(pickled).options == OPTIONS
