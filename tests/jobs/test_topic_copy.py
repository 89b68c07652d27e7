"""topic_copy.py between two brokers: messages as they were, copied on after more have come."""

from pathlib import Path
from typing import Any

import pulsar
from partitioned_topics import create_topic
from pulsar.schema import AvroSchema, Integer, Record, String

import spark_pulsar
from tests.jobs.submitting import submit


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


def run(old: spark_pulsar.BrokerProcess, new: spark_pulsar.BrokerProcess, checkpoint: Path) -> str:
    service = ("--source-url", old.service_url, "--target-url", new.service_url, "--target-admin-url", new.admin_url)
    return submit("topic_copy.py", "plain", "records", *service, "--checkpoint", checkpoint)


def test_topics_are_copied_and_copied_on(tmp_path: Path) -> None:
    # covers SCHEMA-4
    with spark_pulsar.broker_process() as old, spark_pulsar.broker_process() as new:
        from_old, from_new = pulsar.Client(old.service_url), pulsar.Client(new.service_url)
        create_topic(old.admin_url, "records", 2)
        send(from_old, "plain", None, [b"a", b"b", b"\x00\xff"])
        send(from_old, "records", AvroSchema(First), [First(name=name) for name in "pqr"])
        send(from_old, "records", AvroSchema(Second), [Second(name=name, size=1) for name in "stu"])
        first = run(old, new, tmp_path / "checkpoint")
        assert "DIFFERENT" not in first
        send(from_old, "records", AvroSchema(First), [First(name="late")])
        assert "DIFFERENT" not in run(old, new, tmp_path / "checkpoint")
        assert received(from_new, "plain", 3) == received(from_old, "plain", 3)
        schema = AvroSchema(Second)
        assert received(from_new, "records", 7, schema) == received(from_old, "records", 7, schema)
        from_old.close()
        from_new.close()
