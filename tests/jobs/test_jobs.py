"""Every job over the first weeks of the year, in one Spark; what they print is what is computed without Spark here.

By spark-submit, with the whole year, they run in test_demo.py and test_jobs_page.py; exactly_once_etl.py, which starts
a Spark of its own, only there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pulsar
import pytest
from demo import ALERT_FLIGHTS, ALERT_MINUTES, WATERMARK_HOURS, WINDOW_HOURS, compare, expected_alerts, read_alerts
from flights import Flight, read_flights
from partitioned_topics import create_topic
from pulsar.schema import AvroSchema, Integer, Record, String
from sensor_gaps import Finding, odd
from weather import Reading, read_weather

import spark_pulsar
from tests.jobs.one_spark import OneSpark

COUNT = 8_000
DEAD = "persistent://public/default/orders-billing-DLQ"
ORDERS = "persistent://public/default/orders"


@cache
def first_flights() -> list[Flight]:
    return read_flights(COUNT)


def first_readings() -> list[Reading]:
    """The weather as long as the flights go."""
    last_ms = first_flights()[-1].scheduled_ms
    return [reading for reading in read_weather() if reading.hour_ms <= last_ms]


def oddities(readings: list[Reading]) -> Iterator[Finding]:
    """What is odd in the readings of each station."""
    last: dict[str, Reading] = {}
    for reading in readings:
        before = last.get(reading.origin)
        last_ms, last_f = (None, None) if before is None else (before.hour_ms, before.temp_f)
        yield from odd(reading.origin, last_ms, last_f, reading.hour_ms, reading.temp_f, reading.wind_mph)
        last[reading.origin] = reading


@pytest.fixture
def server() -> Iterator[spark_pulsar.BrokerProcess]:
    with spark_pulsar.broker_process() as running:
        yield running


@pytest.fixture(scope="module")
def year(jobs: OneSpark) -> Iterator[spark_pulsar.BrokerProcess]:
    """A broker with the flights and the weather, which its tests read."""
    with spark_pulsar.broker_process() as broker:
        addresses = ("--service-url", broker.service_url, "--admin-url", broker.admin_url)
        jobs.submit("flight_replay.py", *addresses, "--weather-topic", "weather", "--schema", "AVRO", "--limit", COUNT)
        yield broker


def test_alerts_are_those_computed_without_spark(jobs: OneSpark, year: spark_pulsar.BrokerProcess) -> None:
    board = ("--window-hours", WINDOW_HOURS, "--watermark-hours", WATERMARK_HOURS, "--expect", COUNT)
    board = (*board, "--alert-minutes", ALERT_MINUTES, "--alert-flights", ALERT_FLIGHTS)
    printed = jobs.submit("delay_board.py", "--service-url", year.service_url, *board)
    assert f"{COUNT:,} flights read, 0 came too late" in printed
    alerts, wanted = read_alerts(year.service_url, "delay-alerts"), expected_alerts(COUNT)
    assert wanted
    assert compare(alerts, wanted) == []


def test_flights_find_their_weather(jobs: OneSpark, year: spark_pulsar.BrokerProcess) -> None:
    winds = {(reading.origin, reading.hour_ms) for reading in read_weather() if reading.wind_mph is not None}
    departed = [flight for flight in first_flights() if flight.dep_delay is not None]
    count = sum((flight.origin, flight.scheduled_ms) in winds for flight in departed)
    printed = jobs.submit("flights_weather.py", "--service-url", year.service_url, "--expect", count)
    assert f"{count:,} flights with their weather" in printed


def test_sensors_go_on_from_their_state(jobs: OneSpark, year: spark_pulsar.BrokerProcess, tmp_path: Path) -> None:
    readings = first_readings()
    kinds = Counter(finding.kind for finding in oddities(readings))
    assert kinds
    alerts = [f"{kind:5} {count:,}" for kind, count in sorted(kinds.items())]
    command = ("sensor_gaps.py", "--service-url", year.service_url, "--alerts-topic", tmp_path.name)
    command = (*command, "--checkpoint", str(tmp_path / "sensors"))
    most = len(readings) // 2 + 1
    printed = jobs.submit(*command, "--max-per-trigger", most)
    assert printed.splitlines() == [f"{len(readings):,} readings in 2 micro-batches", *alerts]
    assert jobs.submit(*command).splitlines() == ["0 readings in 1 micro-batches", *alerts]


def test_a_window_of_time_is_read_whole(jobs: OneSpark, year: spark_pulsar.BrokerProcess, tmp_path: Path) -> None:
    # covers TRIM-2
    window = ("--from", "2026-01-01T00:00:00Z", "--until", "2100-01-01T00:00:00Z", "--tasks", 4, "--verify")
    printed = jobs.submit("replay_by_time.py", "--service-url", year.service_url, *window, "--output", tmp_path / "out")
    assert printed.splitlines() == [
        f"{COUNT:,} messages in the window, read by 4 tasks",
        f"a full read of {COUNT:,} messages finds the same",
    ]


def test_the_second_night_finds_nothing(jobs: OneSpark, year: spark_pulsar.BrokerProcess, tmp_path: Path) -> None:
    command = ("nightly_available_now.py", "--service-url", year.service_url, "--subscription", tmp_path.name)
    command = (*command, "--output", str(tmp_path / "flights"), "--checkpoint", str(tmp_path / "checkpoint"))
    printed = jobs.submit(*command, "--max-per-trigger", 6_000)
    assert printed.splitlines()[:2] == ["micro-batch 0: 6,000 rows", "micro-batch 1: 2,000 rows"]
    assert jobs.submit(*command).startswith("micro-batch 2: 0 rows\n")


def letters_in(reader: pulsar.Reader) -> list[pulsar.Message]:
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(10_000))
    return found


def test_each_letter_goes_back_once(jobs: OneSpark, server: spark_pulsar.BrokerProcess, tmp_path: Path) -> None:
    # covers LETTER-4
    client = pulsar.Client(server.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    letters = client.create_producer(DEAD)
    properties = {"REAL_TOPIC": ORDERS, "REAL_SUBSCRIPTION": "billing", "ORIGIN_MESSAGE_ID": "1:2:-1"}
    properties |= {"ORIGIN_MESSAGE_IDY_TIME": "1:2:-1", "RECONSUMETIMES": "4", "DELAY_TIME": "5", "mine": "kept"}
    for number in range(5):
        letters.send(b"%d" % number, properties, partition_key="k", ordering_key="o", event_timestamp=7)
    letters.send(b"other", {**properties, "REAL_TOPIC": f"{ORDERS}-other", "DECODE_ERROR": "why"})
    letters.send(b"astray", {"mine": "kept"})
    command = ("replay_dead_letters.py", "--service-url", server.service_url, "--topic", DEAD)
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


def test_topics_are_copied_and_copied_on(jobs: OneSpark, tmp_path: Path) -> None:
    # covers SCHEMA-4
    with spark_pulsar.broker_process() as old, spark_pulsar.broker_process() as new:
        from_old, from_new = pulsar.Client(old.service_url), pulsar.Client(new.service_url)
        create_topic(old.admin_url, "records", 2)
        send(from_old, "plain", None, [b"a", b"b", b"\x00\xff"])
        send(from_old, "records", AvroSchema(First), [First(name=name) for name in "pqr"])
        send(from_old, "records", AvroSchema(Second), [Second(name=name, size=1) for name in "stu"])
        first = copied(jobs, old, new, tmp_path / "checkpoint")
        assert "DIFFERENT" not in first
        send(from_old, "records", AvroSchema(First), [First(name="late")])
        assert "DIFFERENT" not in copied(jobs, old, new, tmp_path / "checkpoint")
        assert received(from_new, "plain", 3) == received(from_old, "plain", 3)
        schema = AvroSchema(Second)
        assert received(from_new, "records", 7, schema) == received(from_old, "records", 7, schema)
        from_old.close()
        from_new.close()
