"""A standalone Spark cluster on 127.0.0.1 from pip's pyspark, and Pythons with and without the package under test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from tests.apache_pulsar.start import free_ports
from tests.cluster.processes import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 2
START_TIMEOUT_S = 150.0
_SITE_PACKAGES = Path(sysconfig.get_path("purelib"))
_SPARK = ("pyspark", "py4j")
_OURS = ("spark_pulsar", "pyspark_pulsar", "_editable_impl_spark_pulsar", "__editable__")

Having = Literal["spark", "dependencies", "everything"]


def make_python(directory: Path, having: Having) -> Path:
    """Makes a Python with Spark alone, with all that is installed here but the package under test, or with that too.

    Packages are linked, not copied. Returns the directory that is put in front of PATH.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    site = directory / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    for entry in _SITE_PACKAGES.iterdir():
        taken = entry.name.split(".")[0] in _SPARK if having == "spark" else not entry.name.startswith(_OURS)
        if not taken or entry.suffix == ".pth" or (site / entry.name).exists():
            continue
        if entry.name == "pyspark":  # SPARK_HOME, where a local cluster makes its own folder
            (site / entry.name).mkdir()
            for part in entry.iterdir():
                (site / entry.name / part.name).symlink_to(part)
        else:
            (site / entry.name).symlink_to(entry)
    if having == "everything":
        install(site)
    return directory / "bin"


def install(target: Path) -> None:
    """Installs the package under test, without its dependencies, into a directory. Needs no network."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--target", str(target), str(ROOT)], check=True)


def environment(python: Path, directory: Path) -> dict[str, str]:
    """The environment of a user of such a Python, with Spark's configuration in `directory`: nothing of ours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    spark_home = python.parent / "lib" / version / "site-packages" / "pyspark"
    kept.pop("VIRTUAL_ENV", None)
    return {
        **kept,
        "PATH": f"{python}:{spark_home / 'bin'}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": str(python / "python3"),
        "SPARK_HOME": str(spark_home),
        "SPARK_CONF_DIR": str(directory),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }


def configure(directory: Path, **more: str) -> None:
    """Writes what a test asks of every Spark: little memory, no UI, few words."""
    settings = {
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        **more,
    }
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))


@contextmanager
def standalone(directory: Path, surroundings: Mapping[str, str]) -> Iterator[str]:
    """A master with two workers of one core each; its URL. Ended with the block."""
    port, web_port, *worker_ports = free_ports(2 + WORKERS)
    url = f"spark://127.0.0.1:{port}"
    spark_class = [f"{surroundings['SPARK_HOME']}/bin/spark-class"]
    master = [*spark_class, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
    servers = [
        ServerProcess("master", [*master, "--port", str(port), "--webui-port", str(web_port)], directory, surroundings)
    ]
    for number, worker_port in enumerate(worker_ports):
        worker = [*spark_class, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1"]
        worker += ["--memory", "1g", "--work-dir", str(directory / f"work-{number}")]
        worker += ["--webui-port", str(worker_port), url]
        servers.append(ServerProcess(f"worker-{number}", worker, directory, surroundings))

    def ready() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{web_port}/json/", timeout=10) as answer:
                return answer.read().count(b'"ALIVE"') == 1 + WORKERS
        except OSError:
            return False

    try:
        for server in servers:
            server.start()
        servers[0].wait_until(ready, START_TIMEOUT_S)
        yield url
    finally:
        for server in reversed(servers):
            server.stop()
        for number in range(WORKERS):
            shutil.rmtree(directory / f"work-{number}", ignore_errors=True)
