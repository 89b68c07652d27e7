"""Versions of Spark: what each of them has; one older than 4.0 is refused by `registering` (READ-37). The rest of the
connector knows none (SPARK-1 ... SPARK-6).

| | 4.0 | 4.1 | 4.2 and newer |
| --- | --- | --- | --- |
| `latestOffset` is handed | nothing | nothing | start and limit |
| Trigger.AvailableNow | one micro-batch | one micro-batch | to the end that was there |
| reports the newest offset | no | no | yes |
| Arrow for streaming writers | by the class of batch writers | yes | yes |
| a batch read of nothing is | None | None | a partition of None |
| times of a day | no type | yes | yes |

A class is chosen by what PySpark has, not by its number: platforms have newer parts in older versions.

Calls of a stream reader on 4.0 and 4.1, as measured on 4.0.5 and 4.1.4. A new query: `latestOffset`, `initialOffset`,
`partitions(initial, end)`. A restart says first where the last planned micro-batch ends, with `partitions(end, end)`,
then repeats that micro-batch if it was not committed, then calls `latestOffset`. So the start of the next micro-batch
is the end of the last call of `partitions`, and where there was none, `initialOffset`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.sql import datasource, types
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamReader, DataSourceStreamWriter, InputPartition

from spark_pulsar.connector.entry_points import entry_points
from spark_pulsar.connector.errors import OptionError

try:
    from pyspark.sql.streaming import datasource as read_limits
except ImportError:
    read_limits = None

if TYPE_CHECKING:
    from spark_pulsar.connector.options.options import Options

LOG: Final = logging.getLogger("spark_pulsar")

HAS_TIMES: Final = hasattr(types, "TimeType")
"""True where Spark has a type for times of a day (SPARK-6)."""

NAMES_THE_START: Final = read_limits is not None
"""True where Spark hands `latestOffset` the start of the micro-batch and its limit."""

_ONE_MICRO_BATCH: Final = (
    "Spark %s runs one micro-batch with Trigger.AvailableNow and Trigger.Once, and this one ends at the limit of %s: "
    "with such a trigger, run the query again for the rest, leave the limit out, or use Spark 4.2 or newer"
)
_WRAPPER: Final = (
    "spark.sql.streaming.triggerAvailableNowWrapper.enabled is true, and Spark {} then requests the end of a read "
    "before it says where the read begins: set it to false, or use Spark 4.2 or newer, which needs no wrapper"
)


def is_nothing(partition: InputPartition | None) -> bool:
    """Returns whether a partition is Spark's stand-in when a batch read has nothing to do."""
    return partition is None or partition.value is None


class _StreamReader(DataSourceStreamReader):
    """A streaming read as its subclass knows it; what follows from the version of Spark is above it."""

    _options: Options

    def end_after(self, start: dict[str, Any], *, is_limited: bool) -> dict[str, Any]:
        """Returns the end of the next micro-batch, `start` where there is none."""
        raise NotImplementedError

    def tasks_between(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns the tasks of a micro-batch."""
        raise NotImplementedError

    def prepareForTriggerAvailableNow(self) -> None:
        """Ends the query at the last message that is on the broker now."""
        raise NotImplementedError


@entry_points
class OwnStartReader(_StreamReader):
    """A streaming read of Spark 4.0 and 4.1, which knows the start by itself (SPARK-1)."""

    _start: dict[str, Any] | None = None
    """End of the micro-batch that was planned last; None until Spark has planned or named one."""
    _answered: dict[str, Any] | None = None
    """The end that was answered while no start was known."""
    _is_warned = False

    def latestOffset(self) -> dict[str, Any]:
        """Returns the end of the next micro-batch; what lies before its start is acknowledged."""
        start = self.initialOffset() if self._start is None else self._start
        end = self.end_after(start, is_limited=True)
        if self._start is None:
            self._answered = end
        self._warn_of_limits(end)
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns the tasks of a micro-batch; none where Spark names the last one that it planned before."""
        is_first, self._start = self._start is None, end
        if is_first and start == end:
            if self._answered is not None:
                raise OptionError(_WRAPPER.format(pyspark.__version__))
            return []
        return self.tasks_between(start, end)

    def _warn_of_limits(self, end: dict[str, Any]) -> None:
        """Says once a run, where a limit leaves something unread, that this may be all of it (SPARK-2)."""
        options = self._options
        limits = {
            "maxMessagesPerTrigger": options.max_messages_per_trigger,
            "maxBytesPerTrigger": options.max_bytes_per_trigger,
        }
        names = [name for name, limit in limits.items() if limit is not None]
        if names and end.get("newest") and not self._is_warned:
            self._is_warned = True
            LOG.warning(_ONE_MICRO_BATCH, pyspark.__version__, " and ".join(names))


if read_limits is not None:

    @entry_points
    class StreamReader(_StreamReader, read_limits.SupportsTriggerAvailableNow):
        """A streaming read of Spark 4.2 and newer."""

        def getDefaultReadLimit(self) -> Any:
            """Returns one of the limits that the options set: Spark knows no two together. It says that there are any;
            `Trigger.Once` requests all instead."""
            options = self._options
            if options.max_messages_per_trigger is not None:
                return read_limits.ReadMaxRows(options.max_messages_per_trigger)
            if options.max_bytes_per_trigger is not None:
                return read_limits.ReadMaxBytes(options.max_bytes_per_trigger)
            if options.min_messages_per_trigger is not None:
                return read_limits.ReadMinRows(options.min_messages_per_trigger)
            return read_limits.ReadAllAvailable()

        def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
            """Returns the end of the next micro-batch; what lies before `start` is acknowledged."""
            return self.end_after(start, is_limited=not isinstance(limit, read_limits.ReadAllAvailable))

        def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
            """Returns the tasks of a micro-batch."""
            return self.tasks_between(start, end)

else:
    StreamReader = OwnStartReader  # type: ignore[misc]


StreamArrowWriter: type[DataSourceStreamWriter] = getattr(datasource, "DataSourceStreamArrowWriter", None) or type(
    "StreamArrowWriter", (DataSourceStreamWriter, DataSourceArrowWriter), {"__doc__": "A streaming write of Spark 4.0."}
)
"""Base of a streaming write that gets Arrow record batches (SPARK-3). Spark 4.0 has no class for it, and hands batches
to a writer of either kind that is a `DataSourceArrowWriter`; to others, a Python object for each row."""
