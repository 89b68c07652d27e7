"""The Spark that the tests run on, and the marker of tests that need what it has not."""

from __future__ import annotations

import json
from typing import Any

import pyspark
import pytest

SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])

_STREAMING = "org.apache.spark.sql.execution.streaming"
FILE_MANAGER = f"{_STREAMING}{'.checkpointing' if SPARK >= (4, 1) else ''}.FileSystemBasedCheckpointFileManager"
"""The manager of checkpoint files that saves 50 ms a micro-batch on a local disk."""


def needs_spark(least: str, rule: str) -> pytest.MarkDecorator:
    """Skips a test on an older Spark than `least`; the row of `rule` in docs/rules.md says what that one has not."""
    wanted = tuple(map(int, least.split(".")))
    return pytest.mark.skipif(wanted > SPARK, reason=f"needs Spark {least}, see {rule}")


def until_spark(first: str, rule: str) -> pytest.MarkDecorator:
    """Skips a test from the Spark on that has what older ones lack: it proves what the row of `rule` says of those."""
    wanted = tuple(map(int, first.split(".")))
    return pytest.mark.skipif(wanted <= SPARK, reason=f"of Sparks before {first}, see {rule}")


def offset_of(source: Any, name: str) -> dict[str, Any]:
    """An offset of a source in a progress event, from its JSON: PySpark 4.0 and 4.1 print it elsewhere (SPARK-4)."""
    value = json.loads(source.json)[name]
    offset: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
    return offset
