"""Jobs on a real Spark cluster; the commands of docs/connector-operations.md bring the package to its executors."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sysconfig
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pulsar
import pytest
from packaging.requirements import Requirement

from tests.brokers import Broker
from tests.cluster.spark_cluster import ROOT, configure, environment, install, make_python

JOB_TIMEOUT_S = 480
LOCAL_CLUSTER = "local-cluster[2,1,1024]"
# Without numba the same code runs, slowly; with it the archive is twice as large.
NOT_ARCHIVED = ("numba", "llvmlite")


def commands(title: str) -> str:
    """The commands of docs/connector-operations.md that follow a bold title."""
    [block] = re.findall(
        rf"\*\*{title}\*\*.*?```bash\n(.*?)```", (ROOT / "docs" / "connector-operations.md").read_text(), re.DOTALL
    )
    return str(block)


def fill(packages: Path) -> None:
    """Does without network what `pip install --target packages '.[connector]'` does."""
    install(packages)
    for name in dependencies() - set(NOT_ARCHIVED):
        for file in metadata.files(name) or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file.locate(), packages / file)


def dependencies() -> set[str]:
    """The names of all distributions that the connector needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["connector"]]
    found: set[str] = set()
    todo = [Requirement(line) for line in lines]
    while todo:
        need = todo.pop()
        wanted = need.marker is None or need.marker.evaluate({"extra": ""})
        if wanted and need.name.lower() not in found:
            found.add(need.name.lower())
            todo += [Requirement(line) for line in metadata.requires(need.name) or ()]
    return found


def wheel(wheels: Path) -> None:
    """Does without network what `pip wheel --no-deps --wheel-dir wheels .` does."""
    pip = ["python3", "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    pip[0] = str(Path(sysconfig.get_path("scripts")) / "python")
    subprocess.run([*pip, "--no-build-isolation", "--wheel-dir", str(wheels), str(ROOT)], check=True)


def run(title: str, having: str, master_url: str, broker: Broker, directory: Path) -> None:
    """Runs commands of the docs in a directory with `jobs`; checks what the official client finds on the topics."""
    configure(directory / "conf")
    surroundings = environment(make_python(directory / "python", having), directory / "conf")  # type: ignore[arg-type]
    source, target = broker.topic("source"), broker.topic("target")
    surroundings |= {"MASTER": master_url, "SERVICE_URL": broker.service_url, "CHECKPOINT": str(directory / "state")}
    (directory / "jobs").symlink_to(ROOT / "jobs")
    block = commands(title).replace(" source target ", f" {source} {target} ")
    pip: dict[str, Callable[[], None]] = {
        "pip install --target packages '.[connector]'": lambda: fill(directory / "packages"),
        "pip wheel --no-deps --wheel-dir wheels .": lambda: wheel(directory / "wheels"),
    }
    first, _, rest = block.partition("\n")
    if first in pip:  # the one line that needs a package index
        pip[first]()
        block = rest
    assert "pip" not in block.replace("$PIP", "")
    log = directory / "job.log"
    with log.open("wb") as output:
        job = subprocess.Popen(
            ["bash", "-eu", "-c", block],
            cwd=directory,
            env=surroundings,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        status = job.wait(JOB_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        status = job.wait()
    assert status == 0, log.read_text()[-6_000:]
    assert "copied 1000 rows" in log.read_text()
    for topic in (source, target):
        reader = broker.client().create_reader(topic, pulsar.MessageId.earliest)
        found = sorted(int(reader.read_next(10_000).data()) for _ in range(1_000))
        assert found == list(range(1_000))
        assert not reader.has_message_available()


@pytest.mark.long
def test_local_cluster(broker: Broker, tmp_path: Path) -> None:
    run("Installed", "everything", LOCAL_CLUSTER, broker, tmp_path)


@pytest.mark.long
def test_installed(master: str, broker: Broker, tmp_path: Path) -> None:
    run("Installed", "everything", master, broker, tmp_path)


def test_archives(master: str, broker: Broker, tmp_path: Path) -> None:
    run("As an archive", "spark", master, broker, tmp_path)


def test_py_files(master: str, broker: Broker, tmp_path: Path) -> None:
    # covers the source runner's pickle: without it, ModuleNotFoundError at the start of the query
    run("As a file", "dependencies", master, broker, tmp_path)
