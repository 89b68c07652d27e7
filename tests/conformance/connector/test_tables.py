"""Topics as Arrow tables, without Spark: `read_table`, `read_batches`, `send_table`."""

from __future__ import annotations

import datetime as dt
import os
import pty
import subprocess
import sys
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from spark_pulsar import read_batches, read_table, send_table
from spark_pulsar.connector.errors import OptionError, SchemaError
from tests.brokers import Broker

NOON = dt.datetime(2026, 11, 27, 12, tzinfo=dt.UTC)


def test_a_table_comes_back_with_keys_properties_and_times(broker: Broker) -> None:
    # covers TABLE-1, TABLE-2
    topic = broker.topic(partitions=3)
    sent = pa.table(
        {
            "value": [b"a", b"b", None, b"d"],
            "__key": ["k1", "k2", None, "k1"],
            "__messageProperties": pa.array([[("x", "1")], [], None, []], pa.map_(pa.string(), pa.string())),
            "__eventTime": pa.array([NOON, None, NOON, None], pa.timestamp("ns", "UTC")),
        }
    )
    assert send_table(broker.service_url, topic, sent) == 4
    table = read_table(broker.service_url, topic)
    rows = sorted(table.to_pylist(), key=lambda row: row["value"] or b"")
    assert [row["value"] for row in rows] == [None, b"a", b"b", b"d"]
    assert [row["__key"] for row in rows] == [None, b"k1", b"k2", b"k1"]
    assert [row["__eventTime"] for row in rows] == [NOON, NOON, None, None]
    assert dict(rows[1]["__messageProperties"]) == {"x": "1"}
    assert rows[1]["__topic"] == rows[3]["__topic"], "one key, one partition"
    consumer = broker.client().subscribe(topic, "s", initial_position=_earliest())
    assert {consumer.receive(timeout_millis=20_000).data() for _ in range(4)} == {b"a", b"b", b"", b"d"}


def _earliest() -> Any:
    import pulsar

    return pulsar.InitialPosition.Earliest


def test_records_of_a_schema(broker: Broker, topic: str) -> None:
    # covers TABLE-1, TABLE-2
    table = pa.table(
        {
            "order": pa.array([1, 2, 3], pa.uint16()),
            "customer": pa.array(["ann", "bob", "ann"]).dictionary_encode(),
            "lines": pa.array([[{"item": "x", "price": 1.5}], [], None]),
        }
    )
    assert send_table(broker.service_url, topic, table, options={"schemaType": "AVRO"}) == 3
    assert read_table(broker.service_url, topic, columns=["lines", "order", "customer"]).to_pylist() == [
        {"lines": [{"item": "x", "price": 1.5}], "order": 1, "customer": "ann"},
        {"lines": [], "order": 2, "customer": "bob"},
        {"lines": None, "order": 3, "customer": "ann"},
    ]
    assert read_table(broker.service_url, topic, limit=2, columns=["order"]).column("order").to_pylist() == [1, 2]


def test_a_data_frame_of_pandas(broker: Broker, topic: str) -> None:
    # covers TABLE-2
    frame = pd.DataFrame({"n": [1, 2], "at": [NOON, NOON + dt.timedelta(hours=1)], "text": ["ä", None]})
    assert send_table(broker.service_url, topic, frame, options={"schemaType": "JSON"}) == 2
    read = read_table(broker.service_url, topic, columns=["n", "at", "text"]).to_pandas()
    assert read["n"].tolist() == [1, 2]
    assert read["text"].tolist()[0] == "ä"
    assert [time.to_pydatetime() for time in read["at"]] == frame["at"].tolist()


def test_many_batches_of_several_partitions_within_a_window(broker: Broker) -> None:
    # covers TABLE-1, TABLE-4
    topic = broker.topic(partitions=4)
    numbers = list(range(40_000))
    values = pa.array([b"%d" % number for number in numbers])
    send_table(broker.service_url, topic, pa.table({"value": values, "__key": values}))
    read = [int(value) for batch in read_batches(broker.service_url, topic) for value in batch["value"].to_pylist()]
    assert sorted(read) == numbers
    batches = read_batches(broker.service_url, topic, columns=["value"])
    assert next(batches).num_rows
    batches.close()  # type: ignore[attr-defined]
    late = {"startingTime": 4_102_444_800_000}
    empty = read_table(broker.service_url, topic, columns=["value", "__messageId", "__partition"], options=late)
    assert empty.schema == pa.schema({"value": pa.binary(), "__messageId": pa.binary(), "__partition": pa.int32()})
    assert empty.num_rows == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"columns": ["__kee"]}, "__key"),
        ({"options": {"startingOffset": "earliest"}}, "did you mean startingOffsets"),
        ({"options": {"service.url": "pulsar://x"}}, "leave it out of the options"),
        ({"options": {"Topic": "other"}}, "topic is the second argument"),
        ({"columns": ["value", None]}, "columns has None"),
    ],
)
def test_mistakes_of_a_read(broker: Broker, topic: str, arguments: dict[str, Any], reason: str) -> None:
    # covers TABLE-3
    send_table(broker.service_url, topic, pa.table({"value": [b"x"]}))
    with pytest.raises((OptionError, SchemaError), match=reason):
        read_table(broker.service_url, topic, **arguments)


@pytest.mark.parametrize(
    ("table", "options", "reason"),
    [
        (pa.table({"value": [b"x"]}), {"deliveryGuarantee": "transactional"}, "needs Spark"),
        (pa.table({"value": [dt.timedelta(1)]}), {}, "column value has Arrow's type duration"),
        (pa.table({"n": pa.array([2**63], pa.uint64())}), {"schemaType": "AVRO"}, "without loss"),
        (pa.table({"colour": [b"x"]}), {}, "column colour cannot be written"),
        (pd.DataFrame({"value": ["a", 1]}), {}, "Arrow cannot read this DataFrame as a table: Expected bytes.* value"),
        (pd.DataFrame([[1, 2]], columns=["n", "n"]), {}, "Duplicate column names found"),
        (pd.DataFrame({"at": pd.period_range("2026", "2027", freq="Y")}), {}, "column at has Arrow's type extension"),
        (pa.table({"n": pa.array([1], pa.decimal256(60, 2))}), {}, r"column n has Arrow's type decimal256\(60, 2\)"),
        ([pa.record_batch({"value": ["a"]}), pa.record_batch({"value": [1]})], {}, "Schema at index 1 was different"),
    ],
    ids=["guarantee", "type", "value", "column", "values", "names", "extension", "digits", "batches"],
)
def test_mistakes_of_a_write(broker: Broker, topic: str, table: Any, options: dict[str, Any], reason: str) -> None:
    # covers TABLE-2, TABLE-3
    with pytest.raises((OptionError, SchemaError), match=reason):
        send_table(broker.service_url, topic, table, options=options)


def test_a_data_frame_without_its_index(broker: Broker, topic: str) -> None:
    # covers TABLE-2
    frame = pd.DataFrame({"value": ["a", "b", "c"]})
    assert send_table(broker.service_url, topic, frame[frame["value"] > "a"]) == 2
    read = read_table(broker.service_url, topic, columns=["value"])
    assert read["value"].to_pylist() == [b"b", b"c"]


def test_values_of_python_as_options(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    # covers TABLE-3, READ-44
    topics = [broker.topic(), broker.topic()]
    for topic in topics:
        assert send_table(broker.service_url, topic, pa.table({"value": ["x"]}), options={"startingTime": 0}) == 1
    assert f"{topics[0]}: options without effect here: startingTime" in caplog.text
    options = {"topics": topics, "startingTime": NOON.replace(year=2020), "metadataColumns": ("__partition",)}
    table = read_table(broker.service_url, options=options)
    assert table.num_rows == 2
    assert "__partition" in table.column_names
    assert read_table(
        broker.service_url, options={"topics": topics, "startingTime": dict.fromkeys(topics, NOON)}
    ).num_rows


WATCHED = """
import sys, pyarrow, spark_pulsar
from spark_pulsar.connector.progress import table_progress

table_progress.DELAY_S = 0
url, topic, is_prompt = sys.argv[1:]
if is_prompt == "True":
    sys.ps1 = ">>> "
print(spark_pulsar.send_table(url, topic, pyarrow.table({"value": [b"x"] * 30_000})))
print(spark_pulsar.read_table(url, topic, columns=["value"]).num_rows)
"""


@pytest.mark.parametrize("is_prompt", [True, False])
def test_a_prompt_shows_how_far_a_table_is(broker: Broker, topic: str, is_prompt: bool) -> None:
    # covers TABLE-7
    terminal, side = pty.openpty()
    command = [sys.executable, "-c", WATCHED, broker.service_url, topic, str(is_prompt)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=side, text=True, timeout=120, check=True)
    os.write(side, b"end")
    shown = os.read(terminal, 1_000_000).decode()
    os.close(side)
    os.close(terminal)
    assert done.stdout.split() == ["30000", "30000"]
    assert ("Sending to" in shown, "Reading" in shown, "rows" in shown) == (is_prompt,) * 3
    assert is_prompt or shown == "end"
