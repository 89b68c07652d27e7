"""Sessions without a `SparkContext`: a server of Spark Connect, and a program that has nothing but its address."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.brokers import Broker
from tests.cluster.over_connect import ON_THIS_HOST
from tests.cluster.processes import ServerProcess
from tests.cluster.spark_cluster import ROOT
from tests.cluster.test_spark_connect import MISSING, environment
from tests.spark.once import make_namespace
from tests.spark.versions import needs_spark

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
NAMESPACE = "public/without-context"

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"READ-45: Spark Connect needs {', '.join(MISSING)}"),
    needs_spark("4.2", "SPARK-2"),  # its queries are of several micro-batches
]


def _serves(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that runs for all tests here, and ends by its process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--class", SERVER]
    for name, value in ON_THIS_HOST.items() | {("spark.connect.grpc.binding.port", str(port))}:
        command += ["--conf", f"{name}={value}"]
    server = ServerProcess("connect", [*command, "spark-internal"], tmp_path_factory.mktemp("connect"), environment())
    server.start()
    try:
        server.wait_until(lambda: _serves(port), 300)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop()


@pytest.fixture(scope="module")
def seen(remote: str, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a program saw that went through everything once."""
    make_namespace(broker, NAMESPACE)
    source, sink = (broker.topic(name).replace("public/default", NAMESPACE) for name in ("source", "sink"))
    directory = tmp_path_factory.mktemp("program")
    client_only = {"SPARK_REMOTE": remote, "SPARK_CONNECT_MODE_ENABLED": "1", "JAVA_HOME": "/nowhere"}
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.without_context", broker.service_url, source, sink, str(directory)],
        cwd=directory,
        env=variables | client_only | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-6000:]}"
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_all_of_the_package_works_without_a_context(seen: dict[str, Any]) -> None:
    # covers READ-45
    assert (seen["session"], seen["gateway"]) == ("pyspark.sql.connect.session", False)
    assert seen["context"].startswith("PySpark")  # the error with which such a session refuses it
    assert seen["guarantees"] == [["a", "b", "c"]] * 3 + [["t"]]
    assert seen["named"] == 20
    assert seen["letters"] == [["a"], ["a"], [seen["letters"][2][0]]]
    assert seen["incomplete"]
    assert (seen["rescued"], seen["after"], seen["sql"], seen["misspelt"]) == ([None, "x"], ["a", "b", "c"], 3, True)


def test_foreach_batch_over_a_connection_reads_and_writes(seen: dict[str, Any]) -> None:
    # covers READ-29, READ-45
    assert (seen["foreachBatch"], seen["seen"]) == (["a", "b", "c"], [2, 3])
    assert seen["refused"]  # a write that needs the number of the micro-batch, which Spark does not name here
    assert seen["explained"].startswith("batches is stopped\n"), seen["explained"]
    assert "no micro-batch" not in seen["explained"]
    assert seen["lag"] == 0


def test_named_sources_over_a_connection(seen: dict[str, Any]) -> None:
    # covers READ-46
    assert seen["named_sources"] == [["a", "b", "c"], ["a", "b", "c", "o"]]
