"""Delivery times of rows: absolute, as a delay, none."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.writing.topic_writer import delivery_times_ms

AT = [datetime(1970, 1, 1, 0, 0, 2, 500, tzinfo=UTC), None, datetime(1969, 1, 1, tzinfo=UTC)]
TIMES = pa.array(AT, pa.timestamp("us", "UTC"))


def test_times_are_milliseconds_and_delays_count_from_now() -> None:
    # covers SINK-5
    assert delivery_times_ms(pa.table({"value": ["x"]}), 7) is None
    assert delivery_times_ms(pa.table({"__deliverAt": TIMES}), 7).tolist() == [2000, 0, 0]
    delays = pa.array([None, 5, -5, 0, 2**63 - 1], pa.int64())
    assert delivery_times_ms(pa.table({"__deliverAfterMs": delays}), 7).tolist() == [0, 12, 0, 0, 2**63 - 1]
    both = pa.table({"__deliverAt": TIMES, "__deliverAfterMs": pa.array([None, 5, 6], pa.int32())})
    assert delivery_times_ms(both, 7).tolist() == [2000, 12, 13]


def test_a_row_with_both_is_refused() -> None:
    both = pa.table({"__deliverAt": [1, 1], "__deliverAfterMs": [None, 5]})
    with pytest.raises(SchemaError, match=r"__deliverAt and __deliverAfterMs \(5\)"):
        delivery_times_ms(both, 7)
