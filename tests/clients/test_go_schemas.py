"""Schemas of the official Go client. Only of messages in batches it says which schema they were written with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.brokers import Broker
from tests.clients.conftest import Clients
from tests.clients.go_client import IN_BATCHES, SHARED, GoClient, GoError
from tests.conformance.schemas import of_topic

CARRIER = {"name": "carrier", "type": "string"}
NUMBER = {"name": "number", "type": "int"}
DELAY = {"name": "delay", "type": ["null", "double"], "default": None}


def schema(kind: str, *fields: dict[str, Any]) -> dict[str, Any]:
    """A schema of the client, with the definition of a record where it has fields."""
    definition = {"type": "record", "name": "Flight", "fields": list(fields)}
    return {"Type": kind, "Definition": json.dumps(definition)} if fields else {"Type": kind}


VALUES: list[tuple[str, Any]] = [
    ("BYTES", "AP8="),
    ("STRING", "text"),
    ("INT8", -8),
    ("INT16", -1_600),
    ("INT32", 2**31 - 1),
    ("INT64", -(2**53)),
    ("FLOAT", 1.5),
    ("DOUBLE", 1.1),
    ("PROTOBUF_NATIVE", {"seconds": 7, "nanos": 3}),
]


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=[kind for kind, _ in VALUES])
def test_values_of_plain_types_arrive(broker: Broker, topic: str, go: GoClient, kind: str, value: Any) -> None:
    # covers SC-1, SC-2
    consumer = go.consumer(topic, Schema=schema(kind))
    go.producer(topic, Schema=schema(kind), **IN_BATCHES).send({"Value": value, "As": kind})
    (message,) = consumer.receive(1)
    assert (go.value(message, kind), message.version) == (value, 0)
    status, stored = broker.rest("GET", f"{of_topic(topic)}/schema")
    assert (status, stored["type"]) == (200, "NONE" if kind == "BYTES" else kind)


@pytest.mark.parametrize("kind", ["AVRO", "JSON"])
@pytest.mark.parametrize("partitions", [0, 2])
def test_records_of_several_versions_are_read(broker: Broker, go: GoClient, kind: str, partitions: int) -> None:
    # covers SC-1, SC-4, SC-9
    topic = broker.topic(partitions=partitions)
    full = {"carrier": "UA", "number": 1545, "delay": 2.5}
    old, new = schema(kind, CARRIER, NUMBER), schema(kind, CARRIER, NUMBER, DELAY)
    consumer = go.consumer(topic, type_=SHARED, Schema=old)
    go.producer(topic, Schema=old, **IN_BATCHES).send({"Value": full | {"delay": None}, "As": "flight"})
    (first,) = consumer.receive(1)
    go.producer(topic, Schema=new, **IN_BATCHES).send({"Value": full, "As": "flight"})
    (second,) = consumer.receive(1)
    assert (first.version, second.version) == (0, 1)
    assert go.value(first, "flight") == full | {"delay": None}
    assert go.value(second, "flight") == full
    versions = broker.rest("GET", f"{of_topic(topic)}/schemas")[1]["getSchemaResponses"]
    assert [each["type"] for each in versions] == [kind, kind]


def test_one_producer_sends_several_schemas(topic: str, go: GoClient) -> None:
    # covers SC-1, SC-9 (GET_OR_CREATE_SCHEMA)
    old, new = schema("AVRO", CARRIER), schema("AVRO", CARRIER, DELAY)
    consumer = go.consumer(topic, Schema=new)
    producer = go.producer(topic, Schema=old, **IN_BATCHES)
    producer.send(
        {"Value": {"carrier": "UA"}, "As": "carrier"},
        {"Value": {"carrier": "AA", "number": 0, "delay": 1.5}, "As": "flight", "Schema": new},
        {"Value": {"carrier": "DL"}, "As": "carrier"},
    )
    messages = consumer.receive(3)
    by_name = {go.value(message, "flight")["carrier"]: message.version for message in messages}
    assert by_name["UA"] == by_name["DL"] != by_name["AA"]
    assert {go.value(message, "flight")["delay"] for message in messages} == {None, 1.5}


def test_a_schema_that_does_not_fit_is_refused(topic: str, go: GoClient) -> None:
    # covers SC-3, SC-4, SC-5, SC-8
    go.producer(topic, Schema=schema("AVRO", CARRIER, NUMBER)).send(
        {"Value": {"carrier": "UA", "number": 1, "delay": None}, "As": "flight"}
    )
    required = {"name": "extra", "type": "int"}
    with pytest.raises(GoError, match="IncompatibleSchema"):
        assert go.producer(topic, Schema=schema("AVRO", CARRIER, NUMBER, required)).name
    with pytest.raises(GoError, match="IncompatibleSchema"):
        assert go.producer(topic, Schema=schema("STRING")).name
    with pytest.raises(GoError, match="IncompatibleSchema"):
        go.consumer(topic, Schema=schema("JSON", {"name": "carrier", "type": "int"}))


def test_schemas_are_found_over_http(broker: Broker, topic: str, go: GoClient, clients: Clients) -> None:
    # covers SC-12, ADM-70
    kind = schema("JSON", CARRIER)
    go.producer(topic, Schema=kind, **IN_BATCHES).send({"Value": {"carrier": "UA"}, "As": "carrier"})
    client = clients(broker, broker.admin_url)
    (message,) = client.consumer(topic, Schema=kind).receive(1)
    assert client.value(message, "carrier") == {"carrier": "UA"}
