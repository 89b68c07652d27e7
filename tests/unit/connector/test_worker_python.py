"""Python of Spark's workers: chosen where nobody did, told where it lacks something, given the package."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle

import spark_pulsar
from spark_pulsar.connector import worker_python
from spark_pulsar.connector.errors import RequirementError
from spark_pulsar.connector.registering import check_installed_spark
from spark_pulsar.connector.shipped_package import shipped_archive
from spark_pulsar.connector.source import PulsarDataSource

ROOT = Path(__file__).resolve().parents[3]
BARE = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
"""The Python that the environment was made of: it has none of its packages."""


@pytest.fixture
def search_path(tmp_path: Path) -> str:
    """A search path whose `python3` is bare."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(BARE)
    return str(tmp_path / "bin")


def chosen(search_path: str, program: str = "import spark_pulsar", **more: str) -> str:
    """`PYSPARK_PYTHON` after a program that runs by the path of its Python."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    env = {**kept, "PATH": search_path, "PYTHONPATH": str(ROOT), **more}
    command = [sys.executable, "-c", f"{program}; import os; print(os.environ.get('PYSPARK_PYTHON'))"]
    done = subprocess.run(command, env=env, cwd=search_path, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_workers_get_the_programs_own_python_where_the_search_path_has_another(search_path: str) -> None:
    # covers READ-36
    assert chosen(search_path) == sys.executable
    told = "import logging; logging.basicConfig(level=20, stream=__import__('sys').stdout); import spark_pulsar"
    assert f"{search_path}/python3 has no spark-pulsar" in chosen(search_path, told)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYSPARK_PYTHON", "python3.11"),
        ("PYSPARK_DRIVER_PYTHON", "jupyter"),
        ("PYSPARK_GATEWAY_PORT", "1"),
        ("SPARK_REMOTE", "sc://a"),
    ],
)
def test_what_somebody_has_chosen_stays(search_path: str, name: str, value: str) -> None:
    # covers READ-36
    assert chosen(search_path, **{name: value}) == (value if name == "PYSPARK_PYTHON" else "None")


def test_an_active_environment_is_left_alone() -> None:
    # covers READ-36
    assert chosen(str(Path(sys.executable).parent)) == "None"


def test_a_command_of_ours_chooses_nothing(search_path: str) -> None:
    program = "import sys; sys.orig_argv[1:] = ['-m', 'spark_pulsar.cli.main']; import spark_pulsar"
    assert chosen(search_path, program) == "None"


def session(python: str, version: str = "4.3.0") -> Any:
    return SimpleNamespace(version=version, sparkContext=SimpleNamespace(pythonExec=python))


def test_register_names_a_python_without_the_package(search_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers READ-37
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(search_path)
    python = f"{search_path}/python3"
    with pytest.raises(RequirementError) as caught:
        spark_pulsar.register(session(python))
    told = str(caught.value)
    assert f"as '{python}'" in told
    assert "without the package spark_pulsar" in told
    assert f"PYSPARK_PYTHON={sys.executable}" in told
    assert "--py-files" in told
    with pytest.raises(RequirementError, match="without numpy and pyarrow: pip install"):
        worker_python.check(session(python), is_shipped=True)  # by --py-files: the package comes by itself


def test_register_names_a_spark_that_is_too_old() -> None:
    # covers READ-37
    with pytest.raises(RequirementError, match=r"this is Spark 3\.5\.9; spark-pulsar needs Spark 4\.0 or newer"):
        spark_pulsar.register(session(sys.executable, "3.5.9"))
    worker_python.check_spark("4.0.0")
    worker_python.check_spark("5.0.0-SNAPSHOT")


def test_register_names_what_is_no_session() -> None:
    for other, name in (
        (None, "NoneType"),
        (SimpleNamespace, "SimpleNamespace"),
        (SimpleNamespace(), "SimpleNamespace"),
    ):
        with pytest.raises(TypeError, match=rf"known to a SparkSession, not to {name}"):
            spark_pulsar.register(other)  # type: ignore[arg-type]


def test_names_that_the_package_has_not() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'readTable'; did you mean read_table\?"):
        spark_pulsar.readTable  # type: ignore[attr-defined]  # noqa: B018


def test_register_names_packages_that_are_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers READ-37
    monkeypatch.setattr(worker_python, "LEAST", {"numpy": (99, 0), "pyarrow": (15, 0), "protobuf": (98, 7)})
    cure = rf"{re.escape(sys.executable)} -m pip install 'numpy>=99\.0' 'protobuf>=98\.7'"
    needed = r"numpy [\d.]+, which has to be 99\.0 or newer and protobuf [\d.]+, which has to be 98\.7 or newer: "
    with pytest.raises(RequirementError, match=rf"as '.*, with {needed}{cure}"):
        spark_pulsar.register(session(sys.executable))
    with pytest.raises(RequirementError, match=rf'format\("pulsar"\) finds {needed}{cure}'):
        check_installed_spark()


def test_the_oldest_packages_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["connector"]]
    floors = dict(line.split(">=") for line in lines)
    assert {
        name: tuple(map(int, f"{floors[name]}.0".split(".")[:2])) for name in worker_python.LEAST
    } == worker_python.LEAST
    assert "pyspark>=4.0" in project["optional-dependencies"]["spark"]
    assert worker_python.LEAST_SPARK == (4, 0)


def test_a_python_that_has_everything_or_cannot_be_asked_passes() -> None:
    # covers READ-37
    worker_python.check(session(sys.executable), is_shipped=False)
    worker_python.check(session("./environment/bin/python"), is_shipped=False)
    worker_python.check(SimpleNamespace(version="4.3.0"), is_shipped=False)  # Spark Connect: nobody to ask


def test_a_worker_without_pyarrow_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers READ-37
    monkeypatch.setattr(worker_python, "find_spec", lambda name: None if name == "pyarrow" else object())
    with pytest.raises(
        RequirementError, match=r'format\("pulsar"\) needs pyarrow, which .* -m pip install .spark-pulsar\[connector\]'
    ):
        worker_python.check_own_packages()


# ---- a data source from an archive, in a process that has not the archive on its path


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


def printed_by(program: str, directory: Path, path: str, given: bytes = b"") -> bytes:
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
    pickled = printed_by(MAKE, tmp_path, str(archive))
    shown = printed_by(LOAD, tmp_path, "", pickled).decode()
    assert shown.startswith(f"{archive}/spark_pulsar/__init__.py spark_pulsar.connector.source PulsarPyDataSource")
    assert str(OPTIONS) in shown


def test_an_installed_one_is_named_only() -> None:
    assert shipped_archive() is None
    pickled = cloudpickle.dumps(PulsarDataSource(OPTIONS))
    assert b"load" not in pickled
    assert pickle.loads(pickled).options == OPTIONS
