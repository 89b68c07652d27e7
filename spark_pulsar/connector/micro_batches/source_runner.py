"""Rows that travel with the plan: a way that PySpark keeps for its own simple stream readers.

Spark's source runner passes rows on with the answer to `partitions()` if the reader is an instance of
`_SimpleStreamReaderWrapper` and its `getCache` returns some; the JVM puts them into its block manager, and the task of
the one partition takes them from there, without a Python worker. A task that finds them gone reads the partition.

The class is private, so `takes_rows` tries out that the runner does so, on the versions of Spark whose JVM side is
known. A reader belongs to it for the length of one answer only: everything else treats such readers differently.
"""

from __future__ import annotations

import io
import json
import logging
import struct
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

LOG: Final = logging.getLogger("spark_pulsar")

_KNOWN_VERSIONS: Final = ((4, 0), (4, 1), (4, 2), (4, 3))
_RUNNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"
_PROBED: Final = b"probe"
_ROWS_FOLLOW: Final = 1
_START_ARROW_STREAM: Final = -6


@cache
def takes_rows() -> bool:
    """Returns whether the source runner in this process passes rows on with the plan; logs why not, once (SPARK-5)."""
    try:
        why_not = _why_not()
    except Exception as error:  # noqa: BLE001  # a private interface may do anything
        why_not = f"{type(error).__name__}: {error}"
    if why_not:
        LOG.warning("small micro-batches are read by tasks on this Spark (%s): %s", pyspark.__version__, why_not)
    return not why_not


def send_along(reader: DataSourceStreamReader, rows: list[pa.RecordBatch]) -> None:
    """Passes rows on with the answer to the runner's call of `reader.partitions`, which names one partition.

    Until it requests the rows the reader is one that `_SimpleStreamReaderWrapper` describes.
    """
    plain: type = getattr(reader, "_rows_along", (type(reader),))[0]
    reader._rows_along = (plain, rows)
    reader.__class__ = _sending(plain)


@lru_cache
def _sending(plain: type[Any]) -> type:
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper

    def get_cache(self: Any, start: dict[str, Any], end: dict[str, Any]) -> Iterator[pa.RecordBatch] | None:
        rows: list[pa.RecordBatch]
        self.__class__, rows = self.__dict__.pop("_rows_along")
        return iter(rows)

    return type(f"{plain.__name__}WithRows", (plain, _SimpleStreamReaderWrapper), {"getCache": get_cache})


class _Probe(DataSourceStreamReader):
    """A reader of one row, to try the runner out with."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One, and its row."""
        send_along(self, [_probe_rows()])
        return [InputPartition(start)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Never called."""
        raise NotImplementedError


def _probe_rows() -> pa.RecordBatch:
    # Of buffers: `pa.array` would import pandas, half a second of each start of a query.
    buffers = [None, pa.py_buffer(struct.pack("=ii", 0, len(_PROBED))), pa.py_buffer(_PROBED)]
    return pa.record_batch([pa.Array.from_buffers(pa.binary(), 1, buffers)], names=["value"])


def _why_not() -> str:
    """Returns why rows cannot travel with the plan here, "" if they can."""
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version not in _KNOWN_VERSIONS:
        return "its version is not known"
    runner = _runner()
    if runner is None:
        return "this process is not its source runner"
    from pyspark.sql.types import BinaryType, StructField, StructType

    schema = StructType([StructField("value", BinaryType())])
    request, answer = io.BytesIO(_text({"at": 1}) + _text({"at": 2})), io.BytesIO()
    probe = _Probe()
    runner.partitions_func(probe, None, schema, 1, request, answer)
    if type(probe) is not _Probe:
        return "it did not request the rows"
    answer.seek(0)
    if _number(answer) != 1:
        return "it did not count the partitions"
    answer.seek(_number(answer), io.SEEK_CUR)
    if (_number(answer), _number(answer)) != (_ROWS_FOLLOW, _START_ARROW_STREAM):
        return "it did not send the rows"
    with pa.ipc.open_stream(answer) as stream:
        return "" if stream.read_all().to_batches() == [_probe_rows()] else "it sent other rows"


def _runner() -> ModuleType | None:
    """Returns the module of the source runner, which is the program of this process."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    return main if spec is not None and spec.name == _RUNNER else None


def _text(value: dict[str, int]) -> bytes:
    data = json.dumps(value).encode()
    return struct.pack("!i", len(data)) + data


def _number(stream: io.BytesIO) -> int:
    number: int = struct.unpack("!i", stream.read(4))[0]
    return number
