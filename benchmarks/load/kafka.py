"""A real Apache Kafka 3.9.1 with its default settings, one KRaft process on 127.0.0.1, and Spark's connector to it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

from load.peers import ROOT, Peer, fresh_directory

sys.path.append(str(ROOT))
from tests.apache_pulsar.start import free_ports, resolved_class_path

KAFKA, VERSION = "kafka", "3.9.1"
SPARK_VERSION = "4.2.0"
_START_TIMEOUT_S = 90
_POMS = ROOT / "benchmarks" / "kafka"
_CACHE = Path.home() / ".cache" / "spark-pulsar-benchmarks"
_WANTED = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")


def connector_jars() -> list[str]:
    """Jars of Spark's Kafka connector that Spark itself does not bring."""
    found = resolved_class_path(
        f"Spark's Kafka connector {SPARK_VERSION}", _POMS / "connector.xml", _CACHE / f"connector-{SPARK_VERSION}"
    )
    return [jar for jar in found.split(":") if Path(jar).name.startswith(_WANTED)]


@contextlib.contextmanager
def kafka(data: Path) -> Iterator[Peer]:
    """A started broker; topics are made by their first use, with one partition."""
    class_path = resolved_class_path(f"Apache Kafka {VERSION}", _POMS / "broker.xml", _CACHE / f"kafka-{VERSION}")
    with fresh_directory(data) as directory:
        port, controller_port = free_ports(2)
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str((directory / "log").resolve()),
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
        }
        file = directory / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        java = ["java", "-Xmx1g", "-classpath", class_path]
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        format_it = ["kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", str(file)]
        with (directory / "kafka.log").open("wb") as log:
            subprocess.run([*java, *format_it], check=True, stdout=log, stderr=log)
            process = subprocess.Popen([*java, "kafka.Kafka", str(file)], stdout=log, stderr=log)
            try:
                _wait_until_ready(process, port)
                yield Peer(KAFKA, f"127.0.0.1:{port}", process.pid, version=VERSION)
            finally:
                process.terminate()
                process.wait(60)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    import socket

    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise RuntimeError("Apache Kafka did not start")


def spark_environment() -> Path:
    """The Python of a virtual environment with the Spark that Kafka's connector is for, and ours besides; made once."""
    home = _CACHE / f"spark-{SPARK_VERSION}"
    python = home / "bin" / "python"
    ready = home / "ready"
    if not ready.exists():
        print(f"making an environment with Spark {SPARK_VERSION}, once ...", file=sys.stderr, flush=True)
        shutil.rmtree(home, ignore_errors=True)
        base = Path(getattr(sys, "_base_executable", sys.executable))
        subprocess.run([str(base), "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "--quiet", "install", "wheel"], check=True)
        packages = [f"pyspark=={SPARK_VERSION}", "confluent-kafka"]
        subprocess.run([str(python), "-m", "pip", "--quiet", "install", *packages], check=True)
        ready.touch()
    [packages_directory] = home.glob("lib/python*/site-packages")
    # What else the connector needs comes from the environment that runs this; its own Spark is found first.
    others = [path for path in sys.path if path.endswith("-packages")]
    (packages_directory / "others.pth").write_text("".join(f"{path}\n" for path in others))
    return python
