"""Apache Pulsar for PySpark, and a lightweight broker that speaks its protocol.

Names of this package are loaded when they are first used, so that importing it costs nothing in Spark's workers:
`register(spark)` makes `format("pulsar")` known to a session where Spark could not discover it by itself, and
`broker_process()` runs a broker as a child process. `RetryLetters` gives programs with the official Python client a
retry letter topic; `starting_offsets` makes the option `startingOffsets` of message ids, `copy_schemas` registers a
topic's schemas with another Pulsar. `retry_letters`, `dead_letters` and `replayed_letters` turn rows that were read
into letters and back; `explain` describes the progress of a streaming query. `read_table`, `read_batches` and
`send_table` read and write topics as Arrow tables, without Spark. Type checkers read `__init__.pyi`.

A script that runs with the Python of an environment which is not activated gets Spark workers of that Python, unless
`PYSPARK_PYTHON` says otherwise: see `connector/worker_python`.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

__version__ = "0.1.0"
__all__ = [
    "BrokerProcess",
    "RetryLetters",
    "__version__",
    "broker_process",
    "copy_schemas",
    "dead_letters",
    "explain",
    "read_batches",
    "read_table",
    "register",
    "replayed_letters",
    "retry_letters",
    "send_table",
    "starting_offsets",
]

_LAZY = {
    "BrokerProcess": "spark_pulsar.testing.process",
    "RetryLetters": "spark_pulsar.client.retry_letters",
    "broker_process": "spark_pulsar.testing.process",
    "copy_schemas": "spark_pulsar.connector.schemas.copying",
    "dead_letters": "spark_pulsar.connector.letters.frames",
    "explain": "spark_pulsar.connector.progress.explain",
    "read_batches": "spark_pulsar.connector.tables",
    "read_table": "spark_pulsar.connector.tables",
    "register": "spark_pulsar.connector.registering",
    "replayed_letters": "spark_pulsar.connector.letters.frames",
    "retry_letters": "spark_pulsar.connector.letters.frames",
    "send_table": "spark_pulsar.connector.tables",
    "starting_offsets": "spark_pulsar.connector.offsets.starting_offsets",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        from difflib import get_close_matches

        near = [] if name.startswith("_") else get_close_matches(name, __all__, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


def _is_command() -> bool:
    """Returns whether this process is a command of this package, which starts no Spark."""
    arguments = sys.orig_argv[1:3]
    return os.path.basename(sys.argv[0] if sys.argv else "") == "spark-pulsar" or (
        arguments[:1] == ["-m"] and arguments[-1].split(".")[0] == "spark_pulsar"
    )


if _is_command():
    # Ctrl-C ends a command without a traceback while it imports its modules, too; the command then has its own way.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
elif "PYSPARK_PYTHON" not in os.environ:
    # By name: the layers below import this package, and shall not seem to import all of it.
    importlib.import_module("spark_pulsar.connector.worker_python").choose_own()
