"""Lets Spark find `format("pulsar-py")`, the second name; shipped as `pyspark_pulsar_py`. See `discovery`."""

from typing import Any


def __getattr__(name: str) -> Any:
    from spark_pulsar.connector.discovery import source_of

    return source_of(__name__, name, "PulsarPyDataSource", "pulsar-py")
