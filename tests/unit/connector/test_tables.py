"""Mistakes in calls of `read_table`, `read_batches` and `send_table` that are noticed before anything is connected."""

from __future__ import annotations

import datetime as dt
import socket
import time
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from spark_pulsar import read_batches, read_table, send_table
from spark_pulsar.client.errors import NoListener
from spark_pulsar.connector.errors import OptionError, SchemaError

URL = "pulsar://127.0.0.1:1"
TABLE = pa.table({"value": ["x"]})


@pytest.mark.parametrize("call", [read_table, read_batches])
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"service_url": None}, "service_url is None: give a text, such as pulsar://localhost:6650"),
        ({"service_url": SimpleNamespace(service_url=URL)}, "SimpleNamespace: give a text, .*, here its service_url"),
        ({"service_url": "localhost:6650"}, "expected pulsar://host:port"),
        ({"topic": ["orders"]}, r"topic is \['orders'\]: give a text, .* the option topics"),
        ({"topic": b"orders"}, "topic is b'orders'"),
        ({"topic": TABLE}, "topic is of type Table"),
        ({"columns": "value"}, r"columns is the text 'value': give a list of names, such as \['value'\]"),
        ({"columns": []}, "columns names no column"),
        ({"columns": 3}, "columns is 3: give a list"),
        ({"columns": [1]}, "columns has 1, which is no name"),
        ({"limit": -1}, "limit is -1: give a number of rows, or None for all"),
        ({"limit": "5"}, "limit is '5'"),
        ({"limit": 1.5}, "limit is 1.5"),
        ({"limit": True}, "limit is True"),
        ({"threads": 0}, "threads is 0: give a number from 1 to 256"),
        ({"threads": 10**12}, "threads is 1000000000000"),
        ({"options": ["mode"]}, r"options is \['mode'\]: give a dictionary"),
        ({"options": {1: "a"}}, "options has 1, which is no name of an option"),
        ({"options": {"startingOffsets": b"abc"}}, "option startingOffsets is b'abc': give a text, a number"),
        ({"options": {"startingTime": dt.datetime(2026, 1, 1)}}, "no offset from UTC: write 2026-01-01T00:00:00Z"),
        ({"options": {"startingTime": dt.date(2026, 1, 1)}}, "no offset from UTC: write 2026-01-01T00:00:00Z"),
        ({"options": {"subscriptionName": "s"}}, "is for stream read only"),
    ],
)
def test_arguments_of_a_read(call: Any, arguments: dict[str, Any], reason: str) -> None:
    # covers TABLE-3
    with pytest.raises(OptionError, match=reason):
        call(**{"service_url": URL, "topic": "orders", **arguments})


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (None, "NoneType is no table: give a pyarrow.Table, record batches, or a DataFrame"),
        ("orders.parquet", "str is no table"),
        ([], "list is no table"),
        ([{"value": "x"}], r"give pyarrow.Table.from_pylist\(…\) of it"),
        ({"value": ["x"]}, r"give pyarrow.table\(…\) of it"),
        (pd.Series(["x"]), "Series is one column"),
        (pa.chunked_array([["x"]]), "ChunkedArray is one column"),
        (pa.table({}), "there is no column value"),
    ],
)
def test_what_is_no_table(table: Any, reason: str) -> None:
    # covers TABLE-2
    with pytest.raises(SchemaError, match=reason):
        send_table(URL, "orders", table)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"column": ["value"]}, r"read_table\(\) has no argument column: did you mean columns\?"),
        ({"startingTime": 0}, r'has no argument startingTime: give options=\{"startingTime": …\}'),
        ({"most": 5}, r"has no argument most; its arguments are service_url, topic, columns=…, limit=…"),
    ],
)
def test_arguments_that_there_are_not(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        read_table(URL, "orders", **arguments)


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_an_address_where_nothing_listens() -> None:
    # covers TABLE-3
    url = f"pulsar://127.0.0.1:{closed_port()},127.0.0.1:{closed_port()}"
    begin = time.monotonic()
    with pytest.raises(NoListener, match=rf"no broker at {url}: cannot connect .* correct the service URL"):
        read_table(url, "orders")
    with pytest.raises(NoListener, match=r"no broker at pulsar://host\.invalid:6650"):
        send_table("pulsar://host.invalid:6650", "orders", TABLE)
    assert time.monotonic() - begin < 10, "seconds, not operationTimeoutMs"
    with pytest.raises(TimeoutError, match=r"timed out after 300 ms .* Connection refused .*set by operationTimeoutMs"):
        read_table(url, "orders", options={"operationTimeoutMs": 300})
