"""Spark's own module for AVRO, `from_avro` and `to_avro`, which PySpark does not bring."""

from __future__ import annotations

import sys
from pathlib import Path

from load.peers import ROOT

sys.path.append(str(ROOT))
from tests.apache_pulsar.start import resolved_class_path

SPARK_AVRO_VERSION = "4.0.1"
_POM = ROOT / "benchmarks" / "spark_avro" / "module.xml"
_CACHE = Path.home() / ".cache" / "spark-pulsar-benchmarks"


def spark_avro_jar() -> str:
    """The jar, from Maven Central."""
    what = f"Spark's module for AVRO {SPARK_AVRO_VERSION}"
    found = resolved_class_path(what, _POM, _CACHE / f"spark-avro-{SPARK_AVRO_VERSION}")
    [jar] = [jar for jar in found.split(":") if Path(jar).name.startswith("spark-avro")]
    return jar
