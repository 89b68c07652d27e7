"""The modules that Spark imports to find the format are light, and silent when they cannot help."""

from __future__ import annotations

import subprocess
import sys

CLIENT = ["spark_pulsar.client.client", "spark_pulsar.client.connections.connection", "spark_pulsar.wire"]
"""The client; its configuration, which options are read into, is light."""
HEAVY = ["pyspark", "pyarrow", "numpy", "numba", "pulsar", "fastavro", "google.protobuf", *CLIENT]


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_importing_the_shims_imports_nothing_heavy() -> None:
    program = f"import sys, pyspark_pulsar, pyspark_pulsar_py; print([name for name in {HEAVY} if name in sys.modules])"
    assert run(program) == "[]"


def test_pure_modules_need_neither_spark_nor_arrow_nor_a_client() -> None:
    modules = (
        *("options.parsing", "offsets.source_offset", "read_limits.admission", "planning.ranges", "planning.splitting"),
        *("reading.projection", "writing.columns", "writing.routing", "writing.struct_values"),
    )
    imports = ", ".join(f"spark_pulsar.connector.{module}" for module in modules)
    program = f"import sys, {imports}; print([n for n in {HEAVY} if n in sys.modules])"
    assert run(program) == "[]"


def test_the_source_does_not_load_the_client_or_arrow_before_it_is_used() -> None:
    program = (
        "import sys; from spark_pulsar.connector import source\n"
        f"print([n for n in {[*CLIENT, 'numba', 'pulsar']} if n in sys.modules])"
    )
    assert run(program) == "[]"


def test_a_broken_connector_does_not_break_discovery() -> None:
    program = (
        "import sys, logging; logging.disable(); sys.modules['spark_pulsar.connector.source'] = None\n"
        "import pyspark_pulsar, pyspark_pulsar_py\n"
        "print(hasattr(pyspark_pulsar, 'DefaultSource'), hasattr(pyspark_pulsar_py, 'DefaultSource'))"
    )
    assert run(program) == "False False"


def test_the_formats_names() -> None:
    program = (
        "import pyspark_pulsar as a, pyspark_pulsar_py as b; print(a.DefaultSource.name(), b.DefaultSource.name())"
    )
    assert run(program) == "pulsar pulsar-py"
