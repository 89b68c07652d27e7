"""The text about a query's progress, of events as Spark makes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_pulsar.connector.progress.explain import explain, explain_progress

TOPIC = "persistent://public/default/orders"
DURATIONS = {"addBatch": 300, "latestOffset": 10, "walCommit": 20, "commitOffsets": 30, "triggerExecution": 400}


def source(messages: int = 0, *, partitions: int = 2, **more: Any) -> dict[str, Any]:
    topics = [f"{TOPIC}-partition-{number}" for number in range(partitions)] if partitions else [TOPIC]
    lag = {"messages": messages, "entries": messages, "bytes": messages * 100, "seconds": 1.5, "estimated": False}
    lag |= {"partitions": min(messages, len(topics))} | more
    latest = {"version": 1, "positions": dict.fromkeys(topics, "1:2:0"), "subscription": "job", "lag": lag}
    return {"description": "org.apache.spark…PythonMicroBatchStream@1", "latestOffset": json.dumps(latest)}


def event(*sources: dict[str, Any], rows: int = 100, **durations: int) -> dict[str, Any]:
    return {
        "batchId": 7,
        "timestamp": "2026-11-23T18:00:00.000Z",
        "numInputRows": rows,
        "processedRowsPerSecond": 250.0,
        "durationMs": DURATIONS | durations,
        "sources": list(sources),
    }


def test_a_query_that_keeps_up() -> None:
    # covers READ-32
    assert explain_progress([event(source())]).splitlines() == [
        f"reads {TOPIC} (2 partitions) as subscription job: read to the end when the last micro-batch began",
        "batch 7 at 2026-11-23T18:00:00.000Z: 100 rows, 250 rows/s; a micro-batch takes 400 ms "
        "(the work 300 ms, checkpoint files 50 ms)",
    ]


def test_a_query_that_is_behind_or_waits_for_letters() -> None:
    # covers READ-32
    [told, *_] = explain_progress([event(source(1_200, estimated=True))]).splitlines()
    assert told.endswith("behind by about 1,200 messages, 120.0 kB, the oldest 1.5 s old in 2 partitions")
    [told, *_] = explain_progress([event(source(1, partitions=0, bytes=None, seconds=None))]).splitlines()
    assert told == f"reads {TOPIC} as subscription job: behind by 1 message in 1 partition"
    delayed = {"entries": 3, "secondsToNext": 12.25}
    [told, *_] = explain_progress([event(source(delayed=delayed))]).splitlines()
    assert told.endswith("began; 3 retry letters wait, the next for 12.2 s")


def test_a_spark_without_reports_of_the_newest_offset() -> None:
    # covers SPARK-4
    end: dict[str, Any] = {"version": 1, "positions": {TOPIC: "1:2:0"}, "subscription": "job"}
    of = f"reads {TOPIC} as subscription job:"
    lag = "when the last micro-batch was planned; its lag is reported from Spark 4.2 on"
    [told, *_] = explain_progress([event({"latestOffset": None, "endOffset": json.dumps(end)})]).splitlines()
    assert told == f"{of} that was all there was {lag}"
    end["newest"] = {TOPIC: "1:9:0"}
    [told, *_] = explain_progress([event({"latestOffset": None, "endOffset": json.dumps(end)})]).splitlines()
    assert told == f"{of} more was there {lag}"


class PrintedProgress(dict[str, Any]):
    """Progress as PySpark 4.0 has it: a mapping whose offsets are printed, beside its JSON."""

    @property
    def json(self) -> str:
        return json.dumps(self["event"])


def test_progress_of_an_older_pyspark_is_read_from_its_json() -> None:
    # covers SPARK-4
    end = {"version": 1, "positions": {TOPIC: "1:2:0"}}
    query = Query()
    query.recentProgress = (PrintedProgress(event=event({"latestOffset": end}), sources=[{"latestOffset": str(end)}]),)
    assert explain(query).splitlines()[1].startswith(f"reads {TOPIC}: that was all there was when")


def test_advice() -> None:
    # covers READ-32
    files = explain_progress([event(source(), walCommit=400, commitOffsets=300, triggerExecution=1_000)])
    assert "to do: checkpoint files take 70% of a micro-batch: put the checkpoint on a faster" in files
    brokers = explain_progress([event(source(), latestOffset=900, triggerExecution=1_000)])
    assert "to do: querying the brokers take 90% of a micro-batch" in brokers
    growing = explain_progress([event(source(lag)) for lag in (10, 20, 30)])
    assert "to do: messages come faster than they are read" in growing
    assert "to do" not in explain_progress([event(source(lag)) for lag in (30, 20, 30)])
    # Small parts are worth nothing, however large their share.
    assert "to do" not in explain_progress([event(source(), latestOffset=50, triggerExecution=80)])


def test_other_sources_and_no_progress() -> None:
    # covers READ-32
    assert explain_progress([]) == "no micro-batch is done yet"
    other = {"description": "KafkaV2", "latestOffset": {"t": {"0": 5}}}
    assert explain_progress([event(other)]).startswith("none of its sources is pulsar\n")
    assert "; 2 more sources not of pulsar\n" in explain_progress([event(source(), other, {"latestOffset": None})])
    many = {f"persistent://public/default/t{number}": "1:2:0" for number in range(5)}
    latest = {"positions": many, "lag": {"messages": 0}}
    [told, *_] = explain_progress([event({"latestOffset": latest})]).splitlines()
    assert told.startswith("reads persistent://public/default/t0, ")
    assert "t2 and 2 more topics: read to the end" in told


class Query:
    """A query as Spark shows it."""

    name, id, isActive = None, "some-id", False

    class Event:
        json = json.dumps(event(source()))

    recentProgress: tuple[Any, ...] = (Event(),)

    @staticmethod
    def exception() -> Exception:
        return ValueError("first line\nand a trace")


def test_the_state_of_the_query_comes_first() -> None:
    # covers READ-32
    assert explain(Query()).splitlines()[0] == "some-id has failed: first line"
    assert len(explain(Query()).splitlines()) == 3


def test_events_of_spark_connect_have_their_rows_at_the_sources() -> None:
    # covers READ-45
    sums = {"numInputRows": None, "processedRowsPerSecond": None}
    sources = [source() | {"numInputRows": rows, "processedRowsPerSecond": 10.0} for rows in (2, 3)]

    class Query:
        id, name, isActive = "some-id", "q", True
        recentProgress = (event(*sources) | sums,)

    assert ": 5 rows, 20 rows/s; a micro-batch takes 400 ms" in explain(Query())


def test_what_is_no_query() -> None:
    for other in (None, "q", {}):
        with pytest.raises(TypeError, match=rf"explain\(\) describes a StreamingQuery.* not {type(other).__name__}"):
            explain(other)
