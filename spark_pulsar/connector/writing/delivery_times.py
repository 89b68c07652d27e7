"""Delivery times of rows: the columns `__deliverAt` and `__deliverAfterMs` as one time for each row (SINK-5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.session_zone import as_instants

if TYPE_CHECKING:
    import pyarrow as pa

DELIVER_AT: Final = "__deliverAt"
DELIVER_AFTER: Final = "__deliverAfterMs"


def delivery_times_ms(table: pa.Table, now_ms: int) -> Any:
    """Returns the delivery time of each row in ms since 1970 UTC, 0 for none; None where no column names any.

    A time at or before 1970 and a delay that is not above 0 are none (DEL-10). Raises SchemaError for a row with both.
    """
    import numpy as np

    from spark_pulsar.wire.columns.flat import event_times_ms

    names = table.column_names
    times = np.zeros(table.num_rows, np.int64)
    if DELIVER_AT in names:
        times = np.maximum(event_times_ms(as_instants(table.column(DELIVER_AT))), 0)
    if DELIVER_AFTER in names:
        delays_ms = event_times_ms(table.column(DELIVER_AFTER))
        both = (delays_ms != 0) & (times != 0)
        if both.any():
            raise SchemaError(
                f"a row has {DELIVER_AT} and {DELIVER_AFTER} ({delays_ms[np.argmax(both)]}): give one of them, and "
                "null for the other"
            )
        times = np.where(delays_ms > 0, now_ms + np.minimum(delays_ms, np.iinfo(np.int64).max - now_ms), times)
    return times if DELIVER_AT in names or DELIVER_AFTER in names else None
