"""Jobs that keep a rule, over the first days of the year, in one Spark; they print what is computed without Spark here.

By spark-submit, with the whole year, all jobs run in test_demo.py, test_jobs_page.py and test_jobs_onwards.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from demo import ALERT_FLIGHTS, ALERT_MINUTES, WATERMARK_HOURS, WINDOW_HOURS, compare, expected_alerts, read_alerts
from partitioned_topics import create_topic
from pulsar.schema import AvroSchema, Integer, Record, String

import spark_pulsar
from tests.jobs.one_spark import OneSpark

COUNT = 3_500
DEAD = "persistent://public/default/orders-billing-DLQ"
ORDERS = "persistent://public/default/orders"


@pytest.fixture(scope="module")
def year(jobs: OneSpark) -> Iterator[spark_pulsar.BrokerProcess]:
    """A broker with the flights, which the jobs read; letters and topics to copy lie beside them."""
    with spark_pulsar.broker_process() as broker:
        addresses = ("--service-url", broker.service_url, "--admin-url", broker.admin_url)
        jobs.submit("flight_replay.py", *addresses, "--schema", "AVRO", "--limit", COUNT)
        yield broker


@pytest.mark.long
def test_alerts_are_those_computed_without_spark(jobs: OneSpark, year: spark_pulsar.BrokerProcess) -> None:
    board = ("--window-hours", WINDOW_HOURS, "--watermark-hours", WATERMARK_HOURS, "--expect", COUNT)
    board = (*board, "--alert-minutes", ALERT_MINUTES, "--alert-flights", ALERT_FLIGHTS)
    printed = jobs.submit("delay_board.py", "--service-url", year.service_url, *board)
    assert f"{COUNT:,} flights read, 0 came too late" in printed
    alerts, wanted = read_alerts(year.service_url, "delay-alerts"), expected_alerts(COUNT)
    assert wanted
    assert compare(alerts, wanted) == []


@pytest.mark.long
def test_a_window_of_time_is_read_whole(jobs: OneSpark, year: spark_pulsar.BrokerProcess, tmp_path: Path) -> None:
    # covers TRIM-2
    window = ("--from", "2026-01-01T00:00:00Z", "--until", "2100-01-01T00:00:00Z", "--tasks", 4, "--verify")
    printed = jobs.submit("replay_by_time.py", "--service-url", year.service_url, *window, "--output", tmp_path / "out")
    assert printed.splitlines() == [
        f"{COUNT:,} messages in the window, read by 4 tasks",
        f"a full read of {COUNT:,} messages finds the same",
    ]


def letters_in(reader: pulsar.Reader) -> list[pulsar.Message]:
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(10_000))
    return found


def test_each_letter_goes_back_once(jobs: OneSpark, year: spark_pulsar.BrokerProcess, tmp_path: Path) -> None:
    # covers LETTER-4
    client = pulsar.Client(year.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    letters = client.create_producer(DEAD)
    properties = {"REAL_TOPIC": ORDERS, "REAL_SUBSCRIPTION": "billing", "ORIGIN_MESSAGE_ID": "1:2:-1"}
    properties |= {"ORIGIN_MESSAGE_IDY_TIME": "1:2:-1", "RECONSUMETIMES": "4", "DELAY_TIME": "5", "mine": "kept"}
    for number in range(5):
        letters.send(b"%d" % number, properties, partition_key="k", ordering_key="o", event_timestamp=7)
    letters.send(b"other", {**properties, "REAL_TOPIC": f"{ORDERS}-other", "DECODE_ERROR": "why"})
    letters.send(b"astray", {"mine": "kept"})
    command = ("replay_dead_letters.py", "--service-url", year.service_url, "--topic", DEAD)
    command = (*command, "--checkpoint", str(tmp_path / "replayed"))

    status, printed = jobs.run(*command, "--dry-run")
    assert status == 1
    assert "no topic is named in 1 letters" in printed

    status, printed = jobs.run(*command, "--default-topic", ORDERS)
    assert status == 0, printed
    assert f"5  {ORDERS}, dead-lettered by subscription billing" in printed
    assert "7  messages sent back" in printed
    orders = client.create_reader(ORDERS, pulsar.MessageId.earliest)
    found = letters_in(orders)
    assert sorted(message.data() for message in found) == [b"0", b"1", b"2", b"3", b"4", b"astray"]
    assert {
        (message.partition_key(), message.ordering_key(), message.event_timestamp())
        for message in found
        if message.data() != b"astray"
    } == {("k", "o", 7)}
    [other] = letters_in(client.create_reader(f"{ORDERS}-other", pulsar.MessageId.earliest))
    assert {str(message.properties()) for message in [other, *found]} == {"{'mine': 'kept'}"}

    letters.send(b"later", properties)
    status, printed = jobs.run(*command, "--dry-run")
    assert status == 0, printed
    assert "1  messages would be sent back" in printed
    assert letters_in(orders) == []
    client.close()


class First(Record):
    """A schema's first version."""

    name = String()


class Second(Record):
    """The next version of it."""

    name = String()
    size = Integer(required_default=True)


def send(client: pulsar.Client, topic: str, schema: Any, values: list[Any]) -> None:
    producer = client.create_producer(topic, schema=schema) if schema else client.create_producer(topic)
    for number, value in enumerate(values):
        producer.send(
            value,
            partition_key=f"k{number % 3}",
            ordering_key=f"o{number}",
            properties={"number": str(number)},
            event_timestamp=1_000 + number,
        )
    producer.close()


def received(client: pulsar.Client, topic: str, count: int, schema: Any = None) -> list[Any]:
    settings = {"schema": schema} if schema else {}
    consumer = client.subscribe(topic, "check", initial_position=pulsar.InitialPosition.Earliest, **settings)
    messages = [consumer.receive(30_000) for _ in range(count)]
    consumer.close()
    return sorted(
        (
            message.value() if schema is None else (message.value().name, message.value().size or 0),
            message.partition_key(),
            message.ordering_key(),
            message.properties(),
            message.event_timestamp(),
            message.message_id().partition(),
        )
        for message in messages
    )


def copied(jobs: OneSpark, old: spark_pulsar.BrokerProcess, new: spark_pulsar.BrokerProcess, checkpoint: Path) -> str:
    service = ("--source-url", old.service_url, "--target-url", new.service_url, "--target-admin-url", new.admin_url)
    return jobs.submit("topic_copy.py", "plain", "records", *service, "--checkpoint", checkpoint)


@pytest.mark.long
def test_topics_are_copied_and_copied_on(jobs: OneSpark, year: spark_pulsar.BrokerProcess, tmp_path: Path) -> None:
    # covers SCHEMA-4
    with spark_pulsar.broker_process() as new:
        from_old, from_new = pulsar.Client(year.service_url), pulsar.Client(new.service_url)
        create_topic(year.admin_url, "records", 2)
        send(from_old, "plain", None, [b"a", b"b", b"\x00\xff"])
        send(from_old, "records", AvroSchema(First), [First(name=name) for name in "pqr"])
        send(from_old, "records", AvroSchema(Second), [Second(name=name, size=1) for name in "stu"])
        first = copied(jobs, year, new, tmp_path / "checkpoint")
        assert "DIFFERENT" not in first
        send(from_old, "records", AvroSchema(First), [First(name="late")])
        assert "DIFFERENT" not in copied(jobs, year, new, tmp_path / "checkpoint")
        assert received(from_new, "plain", 3) == received(from_old, "plain", 3)
        schema = AvroSchema(Second)
        assert received(from_new, "records", 7, schema) == received(from_old, "records", 7, schema)
        from_old.close()
        from_new.close()
