"""Spark Connect and Declarative Pipelines: each in a process of its own, with a server on this host."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pulsar
import pyspark
import pytest

from tests.brokers import Broker
from tests.cluster.over_connect import ON_THIS_HOST
from tests.cluster.spark_cluster import ROOT

NEEDED = {"grpc": "grpcio", "grpc_status": "grpcio-status", "google.rpc": "googleapis-common-protos", "zstandard": ""}


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


MISSING = [package or module for module, package in NEEDED.items() if not _is_there(module)]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(MISSING), reason=f"READ-29, READ-30: Spark Connect needs {', '.join(MISSING)}"),
]


def environment() -> dict[str, str]:
    """An own port for the server of each session, Python and Spark of this process, and this package."""
    spark_home = os.path.dirname(pyspark.__file__)
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    return os.environ | python | {"SPARK_HOME": spark_home, "SPARK_TESTING": "1"}


def finished(command: list[str], directory: Path) -> str:
    """What a command prints, when it has ended without an error."""
    done = subprocess.run(command, cwd=directory, env=environment(), capture_output=True, text=True, timeout=540)
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def test_reads_and_writes_over_spark_connect(broker: Broker, tmp_path: Path) -> None:
    # covers READ-29
    topic = broker.topic("connect", partitions=2)
    command = [sys.executable, "-m", "tests.cluster.over_connect", broker.service_url, topic, str(tmp_path)]
    seen = json.loads(finished(command, tmp_path).splitlines()[-1])
    assert seen == {
        "session": "pyspark.sql.connect.session",
        "read": ["a", "b"],
        "key": ["b"],
        "view": ["a", "b"],
        "refused": True,
        "copy": ["a", "b"],
        "foreachBatch": ["a", "b"],
    }


def test_a_declarative_pipeline_reads_and_writes(broker: Broker, tmp_path: Path) -> None:
    # covers READ-30
    flights, late = broker.topic("flights"), broker.topic("late")
    client = broker.client()
    producer = client.create_producer(flights)
    for flight in ("AA1 late", "AA2 early", "AA3 late"):
        producer.send(flight.encode())
    documented = (ROOT / "docs" / "connector.md").read_text().split("**Declarative Pipelines**", 1)[1]
    [python] = re.findall(r"```python\n(.*?)```", documented.split("\n## ", 1)[0], re.DOTALL)
    for written, real in (("pulsar://localhost:6650", broker.service_url), ("flights", flights), ("late", late)):
        assert f'"{written}"' in python
        python = python.replace(f'"{written}"', f'"{real}"')
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "flights.py").write_text(python)
    (tmp_path / "spark-pipeline.yml").write_text(
        f"name: flights\nstorage: {(tmp_path / 'storage').as_uri()}\n"
        "libraries:\n  - glob:\n      include: transformations/**\n"
    )
    (tmp_path / "storage").mkdir()
    command = [os.path.join(environment()["SPARK_HOME"], "bin", "spark-pipelines"), "run"]
    for name, value in ON_THIS_HOST.items():
        command += ["--conf", f"{name}={value}"]
    assert "Run is COMPLETED" in finished(command, tmp_path)
    reader = client.create_reader(late, pulsar.MessageId.earliest)
    assert [reader.read_next(30_000).data() for _ in range(2)] == [b"AA1 late", b"AA3 late"]
    assert not reader.has_message_available()
