"""Layers, and what a process may load: the broker stays small, Spark's workers start fast."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from spark_pulsar.testing.process import broker_process
from tests.architecture.sources import PACKAGE, ROOT, package_files, parsed, relative

HEAVY = {"numba", "numpy", "pyarrow", "pandas", "pyspark", "pulsar", "rich", "llvmlite"}
WITH_THE_DISK = {"uvicorn", "starlette"}
"""What a broker imports while the disk opens its data directory."""
RARE_OF_THE_WEB = {"prometheus_client", "multipart", "python_multipart", "httpx", "jinja2", "websockets", "wsproto"}
IDLE_RSS_BYTES = 80_000_000


def loaded_by(statement: str) -> set[str]:
    """Names of the modules that a fresh interpreter holds after the statement."""
    program = f"import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}  # else the package looks for the Python of workers
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    return set(json.loads(done.stdout))


def test_the_storage_takes_time_from_its_seam_alone() -> None:
    # What a simulation works by hand. A repair waits for the storage as any other user of it.
    allowed = {"threads.py", "repair.py"}
    for path in package_files():
        if path.is_relative_to(PACKAGE / "storage") and path.name not in allowed:
            imported = {
                alias.name for node in parsed(path).body if isinstance(node, ast.Import) for alias in node.names
            }
            assert "time" not in imported, relative(path)


def test_the_package_itself_loads_nothing() -> None:
    loaded = loaded_by("import spark_pulsar")
    assert not [name for name in loaded if name.startswith("spark_pulsar.")]
    assert not loaded & HEAVY


@pytest.mark.parametrize(
    "module",
    [
        "spark_pulsar.server.runner",
        "spark_pulsar.broker.entities.core",
        "spark_pulsar.storage.files",
        "spark_pulsar.testing.process",
    ],
)
def test_the_broker_loads_nothing_heavy(module: str) -> None:
    assert not {name.partition(".")[0] for name in loaded_by(f"import {module}")} & HEAVY


def test_a_start_imports_nothing_that_few_need() -> None:
    # The ready line waits for all of this, and a busy machine takes ten times as long.
    loaded = loaded_by("import spark_pulsar.cli.main, spark_pulsar.cli.broker.serving, spark_pulsar.server.runner")
    assert not {name.partition(".")[0] for name in loaded} & (HEAVY | WITH_THE_DISK | {"prometheus_client", "re2"})
    rare = {"model.avro", "broker.schemas.avro_compatibility", "broker.schemas.compatibility", "admin.app"}
    assert not {f"spark_pulsar.{name}" for name in rare} & loaded


def test_the_admin_api_imports_metrics_when_somebody_asks() -> None:
    assert not {name.partition(".")[0] for name in loaded_by("import spark_pulsar.server.web")} & RARE_OF_THE_WEB


SHIMS = "import pyspark_pulsar, pyspark_pulsar_py"
CLIENT = {"spark_pulsar.client.client", "spark_pulsar.client.connections.connection", "spark_pulsar.wire"}
"""The client; its configuration, which options are read into, is light."""
PURE = (
    *("options.parsing", "offsets.source_offset", "read_limits.admission", "planning.ranges", "planning.splitting"),
    *("reading.projection", "writing.columns", "writing.routing", "writing.struct_values"),
)


@pytest.mark.parametrize("modules", [SHIMS, "import " + ", ".join(f"spark_pulsar.connector.{each}" for each in PURE)])
def test_discovery_and_pure_modules_need_neither_spark_nor_arrow_nor_a_client_nor_a_broker(modules: str) -> None:
    # Spark imports the shims at the first format() of every session and in workers.
    loaded = loaded_by(modules)
    assert not loaded & (CLIENT | HEAVY | {"fastavro", "google.protobuf"})
    ours = {name.split(".")[1] for name in loaded if name.startswith("spark_pulsar.")}
    assert not ours & {"broker", "storage", "server", "admin", "ledger", "cli"}


def test_the_source_does_not_load_the_client_or_arrow_before_it_is_used() -> None:
    assert not loaded_by("from spark_pulsar.connector import source") & (CLIENT | {"numba", "pulsar"})


def test_a_broken_connector_does_not_break_discovery() -> None:
    hide = "sys.modules['spark_pulsar.connector.source'] = None"
    shown = "not any(hasattr(each, 'DefaultSource') for each in (pyspark_pulsar, pyspark_pulsar_py))"
    loaded_by(f"import logging; logging.disable(); {hide}; {SHIMS}; assert {shown}")


def test_the_formats_names() -> None:
    names = "[each.DefaultSource.name() for each in (pyspark_pulsar, pyspark_pulsar_py)]"
    loaded_by(f"{SHIMS}; assert {names} == ['pulsar', 'pulsar-py']")


def test_package_files_hold_a_docstring_and_nothing_else() -> None:
    for path in package_files():
        if path.name != "__init__.py" or path.parent == PACKAGE:
            continue
        others = [node for node in parsed(path).body if not _is_text(node)]
        assert not others, f"{relative(path)} holds more than its docstring"


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_idle_broker_is_small(tmp_path: Path) -> None:
    with broker_process(data_dir=tmp_path) as broker:
        process = psutil.Process(broker.pid)
        mapped = {Path(each.path).name for each in process.memory_maps(grouped=True)}
        rss = process.memory_info().rss
    libraries = ("libarrow", "libllvmlite", "_multiarray_umath", "_pulsar")
    assert not [name for name in mapped if name.startswith(libraries)]
    assert rss < IDLE_RSS_BYTES, f"{rss / 1e6:.0f} MB"
