"""Retry letters and dead letters from Spark, beside those of the clients."""

from __future__ import annotations

import itertools
import time
from collections import Counter

import pulsar
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import spark_pulsar
from spark_pulsar.client.retry_letters import letter
from spark_pulsar.connector.errors import OptionError, SchemaError
from tests.eventually import eventually
from tests.spark.flows import Flows

READ = (
    "value binary, __key binary, __topic string, __messageId binary, __eventTime timestamp, "
    "__messageProperties map<string,string>"
)
TOPIC = "persistent://public/default/t"


def message_id(ledger: int, entry: int, partition: int, batch: int) -> bytes:
    data = pulsar.MessageId(partition, ledger, entry, batch).serialize()
    assert isinstance(data, bytes)
    return data


@pytest.mark.spark_alone
def test_letters_are_those_of_the_client(flows: Flows) -> None:
    # covers LETTER-1, RLQ-3, RLQ-4, DLQ-3: `letter` is held to the Java client's own by tests/clients
    given = [
        (TOPIC, (5, 0, -1, -1), {"p": "1"}),
        (f"{TOPIC}-partition-3", (2**40, 2**31 + 7, 3, 129), {}),
        (f"{TOPIC}-s-RETRY", (300, 128, -1, -1), {"RECONSUMETIMES": "1", "REAL_TOPIC": "o", "ORIGIN_MESSAGE_ID": "1"}),
        (f"{TOPIC}-s-RETRY-partition-0", (0, 0, 0, 0), {"RECONSUMETIMES": "2", "REAL_SUBSCRIPTION": "s0", "p": "2"}),
        (TOPIC, (1, 1, -1, -1), {"RECONSUMETIMES": "x"}),
        ("persistent://public/default/o'b\\x-partition-00", (1, 1, -1, -1), {"p'\\": "ü"}),
    ]
    rows = [
        (b"\xff%d" % number, b"k", topic, message_id(*at), None, properties)
        for number, (topic, at, properties) in enumerate(given)
    ]
    frame = flows.rows(READ, rows)
    added = {"p": "added", "it's": "\\"}
    letters = spark_pulsar.retry_letters(
        frame, subscription="s", delay_ms=3_000, max_redeliver_count=2, properties=added
    )
    found = letters.collect()
    for row, (topic, (ledger, entry, partition, batch), properties) in zip(found, given, strict=True):
        at = f"{ledger}:{entry}:{partition}" + (f":{batch}" if batch >= 0 else "")
        expected = letter(properties, topic, "s", at, 3_000, 2, added)
        assert row["__messageProperties"] == expected.properties
        base = topic.removesuffix("-partition-3").removesuffix("-partition-0").removesuffix("-s-RETRY")
        assert row["__topic"] == f"{base}-s-{'DLQ' if expected.is_dead else 'RETRY'}"
        assert row["__deliverAfterMs"] == (None if expected.is_dead else 3_000)
    assert [bytes(row["value"]) for row in found] == [row[0] for row in rows]
    dead = spark_pulsar.dead_letters(frame.limit(1), subscription="s").collect()[0]
    assert dead["__topic"] == f"{TOPIC}-s-DLQ"
    assert dead["__messageProperties"] == {
        "p": "1",
        "REAL_TOPIC": TOPIC,
        "REAL_SUBSCRIPTION": "s",
        "ORIGIN_MESSAGE_ID": "5:0:-1",
        "ORIGIN_MESSAGE_IDY_TIME": "5:0:-1",
    }
    again = spark_pulsar.replayed_letters(letters.withColumn("__messageId", F.lit(b""))).collect()
    assert [row["__messageProperties"] for row in again] == [{**row[2], **added} for row in given_own(given)]
    assert again[1]["__topic"] == TOPIC


def given_own(given: list[tuple[str, tuple[int, ...], dict[str, str]]]) -> list[tuple[str, object, dict[str, str]]]:
    letters = {"REAL_TOPIC", "REAL_SUBSCRIPTION", "ORIGIN_MESSAGE_ID", "RECONSUMETIMES"}
    return [(topic, at, {k: v for k, v in own.items() if k not in letters}) for topic, at, own in given]


@pytest.mark.spark_alone
def test_topics_of_letters_can_be_named_and_delays_vary(flows: Flows) -> None:
    # covers LETTER-1
    mine = {"RECONSUMETIMES": "1", "REAL_TOPIC": TOPIC}
    rows = [
        (b"a", b"\xff", TOPIC, message_id(1, 0, -1, -1), None, {"wait": "5"}),
        (b"b", None, f"{TOPIC}-later", message_id(1, 1, -1, -1), None, mine),
    ]
    frame = flows.rows(READ, rows)
    named = {"subscription": "s", "retry_letter_topic": "t-later"}
    wait = "try_element_at(__messageProperties, 'wait')"
    first, second = spark_pulsar.retry_letters(frame, delay_ms=wait, max_redeliver_count=1, **named).collect()
    assert (first["__topic"], second["__topic"]) == (f"{TOPIC}-later", f"{TOPIC}-s-DLQ")
    assert first["__messageProperties"]["DELAY_TIME"] == "5"
    assert (first["__deliverAfterMs"], second["__deliverAfterMs"]) == (5, None)
    assert first["__key"] == "/w=="
    kept = spark_pulsar.retry_letters(frame, delay_ms=-1, binary_keys=True, **named).collect()
    assert (bytes(kept[0]["__key"]), kept[0]["__deliverAfterMs"]) == (b"\xff", 0)
    dead = spark_pulsar.dead_letters(frame, dead_letter_topic="t-dead", **named).collect()
    assert {row["__topic"] for row in dead} == {"persistent://public/default/t-dead"}


def test_a_job_retries_until_a_row_is_dead(flows: Flows) -> None:
    # covers LETTER-1, LETTER-2, LETTER-3: the job of the docs, with a row that fails always, and one that fails once
    topic = flows.broker.topic("letters", partitions=2)
    flows.send(topic, ["good"])
    flows.send(topic, ["bad", "moody"], {"partition_key": "k", "ordering_key": "o", "event_timestamp": 7})
    official = flows.official()
    official.subscribe(f"{topic}-s-DLQ", "kept", initial_position=pulsar.InitialPosition.Earliest).close()
    options = {"enableRetry": True, "subscriptionName": "s", "metadataColumns": "__orderingKey"}
    seen: list[tuple[str, str | None, float]] = []

    def work(batch: DataFrame, _: int) -> None:
        now_s = time.monotonic()
        times = {
            bytes(row["value"]).decode(): row["__messageProperties"].get("RECONSUMETIMES") for row in batch.collect()
        }
        seen.extend((value, count, now_s) for value, count in times.items())
        failed = batch.where(
            "value = X'626164' OR (value = X'6d6f6f6479' AND __messageProperties['REAL_TOPIC'] IS NULL)"
        )
        letters = spark_pulsar.retry_letters(failed, subscription="s", delay_ms=1_500, max_redeliver_count=2)
        flows.write(letters)

    writer = flows.stream(topic, **options).writeStream.foreachBatch(work)
    query = flows.start(writer.option("checkpointLocation", flows.checkpoint()))
    eventually(lambda: len(flows.receive(f"{topic}-s-DLQ")) == 1 or query.exception() is not None, 120)
    assert query.exception() is None
    query.stop()
    assert Counter((value, count) for value, count, _ in seen) == Counter(
        [("bad", None), ("bad", "1"), ("bad", "2"), ("good", None), ("moody", None), ("moody", "1")]
    )
    at_s = [at for value, _, at in seen if value == "bad"]
    assert min(later - sooner for sooner, later in itertools.pairwise(at_s)) >= 1.4
    (dead,) = flows.receive(f"{topic}-s-DLQ")
    assert (dead.data(), dead.partition_key(), dead.ordering_key(), dead.event_timestamp()) == (b"bad", "k", "o", 7)
    properties = dead.properties()
    assert (properties["REAL_TOPIC"], properties["REAL_SUBSCRIPTION"], properties["RECONSUMETIMES"]) == (
        topic,
        "s",
        "3",
    )


@pytest.mark.spark_alone
def test_what_is_no_read_is_refused(flows: Flows) -> None:
    frame = flows.rows(READ, [])
    with pytest.raises(SchemaError, match="missing: __messageId"):
        spark_pulsar.dead_letters(frame.drop("__messageId"), subscription="s")
    with pytest.raises(SchemaError, match="value is int"):
        spark_pulsar.dead_letters(frame.withColumn("value", F.lit(1)), subscription="s")
    with pytest.raises(OptionError, match="max_redeliver_count = 0"):
        spark_pulsar.retry_letters(frame, subscription="s", delay_ms=1, max_redeliver_count=0)
