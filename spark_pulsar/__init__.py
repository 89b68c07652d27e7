"""Apache Pulsar for PySpark, and a lightweight broker that speaks its protocol.

Names of this package are loaded when they are first used, so that importing it costs nothing in Spark's workers:
`register(spark)` makes `format("pulsar")` known to a session where Spark could not discover it by itself, and
`broker_process()` runs a broker as a child process. `RetryLetters` gives programs with the official Python client a
retry letter topic; `starting_offsets` makes the option `startingOffsets` of message ids, `copy_schemas` registers a
topic's schemas with another Pulsar. `retry_letters`, `dead_letters` and `replayed_letters` turn rows that were read
into letters and back; `explain` tells how a streaming query gets on.
"""

from __future__ import annotations

import importlib
from typing import Any

_LAZY = {
    "BrokerProcess": "spark_pulsar.testing.process",
    "RetryLetters": "spark_pulsar.client.retry_letters",
    "broker_process": "spark_pulsar.testing.process",
    "copy_schemas": "spark_pulsar.connector.schemas.copying",
    "dead_letters": "spark_pulsar.connector.letters.frames",
    "explain": "spark_pulsar.connector.progress.explain",
    "register": "spark_pulsar.connector.source",
    "replayed_letters": "spark_pulsar.connector.letters.frames",
    "retry_letters": "spark_pulsar.connector.letters.frames",
    "starting_offsets": "spark_pulsar.connector.offsets.starting_offsets",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
