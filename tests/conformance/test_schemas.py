"""Schemas through the official client, single frames and REST (SC-1 ... SC-12)."""

from __future__ import annotations

import json

import pulsar
import pytest
from google.protobuf import wrappers_pb2
from pulsar import schema as ps

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, receive
from tests.conformance.schemas import (
    B_REQUIRED,
    B_WITH_DEFAULT,
    INCOMPATIBLE,
    A,
    Schemas,
    fresh_namespace,
    of_topic,
    record,
    set_policy,
    topic_in,
)
from tests.eventually import eventually


class One(ps.Record):
    """A record that official clients write as JSON."""

    a = ps.Integer()


class Two(ps.Record):
    """One, with a field that may be missing."""

    a = ps.Integer()
    b = ps.String(required_default=True)


class Other(ps.Record):
    """A field of another type."""

    a = ps.String()


Two.__name__ = Other.__name__ = "One"


@pytest.fixture
def schemas(broker: Broker) -> Schemas:
    return Schemas(broker.raw())


@pytest.fixture
def namespace(broker: Broker) -> str:
    return fresh_namespace(broker)


# ---- the official client --------------------------------------------------------------------------------------------


def test_texts(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers SC-1, SC-2
    consumer = client.subscribe(topic, "s", schema=ps.StringSchema())
    client.create_producer(topic, schema=ps.StringSchema()).send("grün")
    (message,) = receive(consumer, 1)
    assert message.value() == "grün"
    status, shown = broker.rest("GET", f"{of_topic(topic)}/schema")
    assert (status, shown["version"], shown["type"], shown["data"]) == (200, 0, "STRING", "null")


def test_records_of_two_versions(broker: Broker, client: pulsar.Client) -> None:
    # covers SC-1, SC-4, C6
    topic = broker.topic(partitions=2)
    old = client.create_producer(topic, schema=ps.JsonSchema(One))
    new = client.create_producer(topic, schema=ps.JsonSchema(Two))
    consumer = client.subscribe(topic, "s", schema=ps.JsonSchema(Two), initial_position=EARLIEST)
    old.send(One(a=1))
    new.send(Two(a=2, b="x"))
    found = sorted((each.value().a, each.value().b, each.schema_version()) for each in receive(consumer, 2))
    assert [each[:2] for each in found] == [(1, None), (2, "x")]
    assert found[0][2] != found[1][2]
    versions = broker.rest("GET", f"{of_topic(topic)}/schemas")[1]["getSchemaResponses"]
    assert [each["version"] for each in versions] == [0, 1]


def test_a_client_with_another_type_is_refused(client: pulsar.Client, topic: str) -> None:
    # covers SC-3, SC-8
    client.create_producer(topic, schema=ps.JsonSchema(One))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=ps.StringSchema())
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=ps.JsonSchema(Other))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.subscribe(topic, "s", schema=ps.StringSchema())
    client.subscribe(topic, "s").close()
    client.create_producer(topic).close()


def test_native_protobuf(client: pulsar.Client, topic: str) -> None:
    # covers SC-2, SC-5
    wanted = ps.ProtobufNativeSchema(wrappers_pb2.StringValue)
    consumer = client.subscribe(topic, "s", schema=wanted)
    client.create_producer(topic, schema=wanted).send(wrappers_pb2.StringValue(value="x"))
    assert receive(consumer, 1)[0].value().value == "x"
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer(topic, schema=ps.ProtobufNativeSchema(wrappers_pb2.Int64Value))


# ---- versions -------------------------------------------------------------------------------------------------------


def test_versions(topic: str, schemas: Schemas) -> None:
    # covers SC-1, SC-9
    missing = schemas.get(topic)
    assert (missing["error_code"], missing["error_message"]) == (
        "TopicNotFound",
        f"Topic not found or no-schema {topic}",
    )
    assert schemas.get_or_create(topic, record(A)) == "TopicNotFound"
    found = [schemas.produce(topic, data) for data in (record(A), record(A, B_WITH_DEFAULT), record(A))]
    assert found == [0, 1, 0]
    assert schemas.produce(topic, None) is None
    assert schemas.get_or_create(topic, json.dumps(json.loads(record(A)), indent=4).encode()) == 0
    assert schemas.get_or_create(topic, record(A, doc="said otherwise")) == 0
    assert schemas.get(topic, 0)["schema"]["schema_data"] == record(A).hex()
    latest = schemas.get(topic)
    assert (latest["schema"]["name"], latest["schema_version"]) == (topic.partition("://")[2], "0" * 15 + "1")
    assert schemas.get(topic, 2)["error_code"] == "TopicNotFound"


def test_places_of_versions(broker: Broker, topic: str, schemas: Schemas) -> None:
    # covers SC-1
    path = f"{topic_path(topic).replace('/persistent/', '/schemas/')}/metadata"
    assert broker.rest("GET", path) == (200, "")
    for version, data in enumerate((record(A), record(A, B_WITH_DEFAULT))):
        assert schemas.produce(topic, data) == version
    status, answer = broker.rest("GET", path)
    assert (status, [each["version"] for each in answer["index"]]) == (200, [0, 1])
    assert answer["info"] == answer["index"][1]
    assert {"ledgerId", "entryId"} < set(answer["info"])


def test_partitions_share_schemas(broker: Broker, schemas: Schemas) -> None:
    # covers SC-1
    topic = broker.topic(partitions=2)
    assert schemas.produce(f"{topic}-partition-1", record(A)) == 0
    assert schemas.produce(f"{topic}-partition-0", record(A)) == 0
    assert schemas.get(topic)["schema"]["name"] == topic.partition("://")[2]
    assert broker.rest("DELETE", f"{topic_path(topic)}/partitions?force=true")[0] == 204
    assert schemas.get(topic)["error_code"] == "TopicNotFound"


def test_a_deletion(broker: Broker, topic: str, schemas: Schemas) -> None:
    # covers SC-10
    assert schemas.produce(topic, record(A)) == 0
    path = of_topic(topic)
    assert broker.rest("DELETE", f"{path}/schema") == (200, {"version": 1})
    mark = schemas.get(topic)
    assert (mark["schema"]["type"], mark["schema"]["schema_data"], int(mark["schema_version"], 16)) == ("None", "", 1)
    assert schemas.get(topic, 0)["error_code"] == "TopicNotFound"
    assert broker.rest("GET", f"{path}/schema")[0] == 404
    assert broker.rest("GET", f"{path}/schemas") == (200, {"getSchemaResponses": []})
    assert schemas.produce(topic, b"", "String") == 2
    assert broker.rest("DELETE", f"{path}/schema?force=true") == (200, {"version": -1})
    assert schemas.get(topic)["error_code"] == "TopicNotFound"
    assert schemas.produce(topic, b"", "Int32") == 0


def test_a_message_keeps_the_version_that_it_came_with(broker: Broker, schemas: Schemas) -> None:
    # covers SC-1
    topic, raw = broker.topic(), schemas.raw
    assert schemas.produce(topic, record(A)) == 0
    raw.send_message(1, 0, b"x", metadata={"schema_version": b"\0\0\0\0\0\0\0\7"})
    raw.expect("SEND_RECEIPT")
    raw.request("SUBSCRIBE", topic=topic, subscription="s", subType="Shared", consumer_id=9, initialPosition="Earliest")
    raw.flow(1, 9)
    (message,) = raw.expect_messages(1)
    assert message.metadata is not None
    assert message.metadata["schema_version"] == "0000000000000007"


# ---- consumers ------------------------------------------------------------------------------------------------------


def test_a_consumer_gives_an_idle_topic_its_schema(broker: Broker, topic: str, schemas: Schemas) -> None:
    # covers SC-8
    assert schemas.consume(topic, b"", "AutoConsume") is None
    assert schemas.get(topic)["error_code"] == "TopicNotFound"
    assert schemas.consume(topic, record(A)) is None
    assert schemas.get(topic)["schema"]["schema_data"] == record(A).hex()
    assert schemas.consume(topic, record(A, B_WITH_DEFAULT)) is None
    assert schemas.consume(topic, record()) is None
    assert schemas.consume(topic, record(A, B_REQUIRED)) == INCOMPATIBLE
    assert schemas.consume(topic, b"", "String") == INCOMPATIBLE
    assert len(broker.rest("GET", f"{of_topic(topic)}/schemas")[1]["getSchemaResponses"]) == 1


def test_a_topic_of_bytes_gets_no_schema_from_a_consumer(broker: Broker, schemas: Schemas) -> None:
    # covers SC-8
    produced, consumed = broker.topic(), broker.topic()
    assert schemas.produce(produced) is None
    assert schemas.consume(produced, record(A)) == INCOMPATIBLE
    broker.client().subscribe(consumed, "s")
    assert schemas.consume(consumed, record(A)) == INCOMPATIBLE
    assert schemas.produce(consumed, record(A)) == 0


@pytest.mark.ours_only("SC-8: a schema that cannot be read is refused; Apache Pulsar lets its consumer in without one")
def test_a_consumer_with_an_unreadable_schema(broker: Broker, schemas: Schemas) -> None:
    # covers SC-8
    assert schemas.consume(broker.topic(), b"{") == INCOMPATIBLE


# ---- policies -------------------------------------------------------------------------------------------------------


def test_without_updates_only_known_schemas_may_be_used(broker: Broker, schemas: Schemas, namespace: str) -> None:
    # covers SC-6
    assert broker.rest("GET", f"{namespace}/isAllowAutoUpdateSchema") == (200, True)
    set_policy(broker, namespace, "isAllowAutoUpdateSchema", False)
    topic = topic_in(namespace)
    assert schemas.produce(topic, record(A)) == INCOMPATIBLE
    assert schemas.consume(topic, record(A)) == INCOMPATIBLE
    body = {"type": "AVRO", "schema": record(A).decode(), "properties": {}}
    assert broker.rest("POST", f"{of_topic(topic)}/schema", body) == (200, {"version": {"version": 0}})
    assert schemas.produce(topic, record(A)) == 0
    assert schemas.produce(topic, record(A, B_WITH_DEFAULT)) == INCOMPATIBLE
    assert schemas.get_or_create(topic, record(A, B_WITH_DEFAULT)) == INCOMPATIBLE
    assert schemas.consume(topic, record(A, B_WITH_DEFAULT)) is None


def test_enforced_schemas(broker: Broker, schemas: Schemas, namespace: str) -> None:
    # covers SC-7
    assert broker.rest("GET", f"{namespace}/schemaValidationEnforced") == (200, False)
    set_policy(broker, namespace, "schemaValidationEnforced", True)
    topic = topic_in(namespace)
    assert schemas.produce(topic) is None
    assert schemas.produce(topic, record(A)) == 0
    assert schemas.produce(topic) == INCOMPATIBLE
    assert schemas.get_or_create(topic, b"", "None") == INCOMPATIBLE
    broker.client().subscribe(topic, "s")
    set_policy(broker, namespace, "schemaValidationEnforced", False)
    assert schemas.produce(topic) is None
    assert broker.rest("POST", f"{topic_path(topic)}/schemaValidationEnforced", True)[0] == 204
    eventually(lambda: schemas.produce(topic) == INCOMPATIBLE)


def test_a_strategy_of_one_topic(broker: Broker, topic: str, schemas: Schemas) -> None:
    # covers SC-4, ADM-67
    assert schemas.produce(topic, record(A)) == 0
    path = f"{topic_path(topic)}/schemaCompatibilityStrategy"
    assert broker.rest("GET", path) == (200, "")
    assert broker.rest("GET", f"{path}?applied=true") == (200, "FULL")
    assert broker.rest("PUT", path, "ALWAYS_COMPATIBLE")[0] == 204
    eventually(lambda: broker.rest("GET", path) == (200, "ALWAYS_COMPATIBLE"))
    eventually(lambda: schemas.produce(topic, record(A, B_REQUIRED)) == 1)
    assert broker.rest("DELETE", path)[0] == 204
    eventually(lambda: broker.rest("GET", path) == (200, ""))


def test_the_strategy_under_its_old_name(broker: Broker, schemas: Schemas, namespace: str) -> None:
    # covers ADM-66
    old = f"{namespace}/schemaAutoUpdateCompatibilityStrategy"
    assert broker.rest("GET", old)[0] == 204
    assert broker.rest("GET", f"{namespace}/schemaCompatibilityStrategy") == (200, "UNDEFINED")
    set_policy(broker, namespace, "schemaAutoUpdateCompatibilityStrategy", "Backward")
    topic = topic_in(namespace)
    assert schemas.produce(topic, record(A)) == 0
    body = {"type": "AVRO", "schema": record(A).decode(), "properties": None}
    status, answer = broker.rest("POST", f"{of_topic(topic)}/compatibility", body)
    assert (status, answer) == (202, {"compatibility": True, "schemaCompatibilityStrategy": "BACKWARD"})


# ---- REST -----------------------------------------------------------------------------------------------------------


def test_schemas_over_rest(broker: Broker, topic: str, schemas: Schemas) -> None:
    # covers SC-12
    path = of_topic(topic)
    first = {"type": "JSON", "schema": record(A).decode(), "properties": {"k": "v"}}
    second = {"type": "JSON", "schema": record(A, B_WITH_DEFAULT).decode(), "properties": None}
    refused = {"type": "JSON", "schema": record(A, B_REQUIRED).decode(), "properties": {}}
    assert broker.rest("GET", f"{path}/schema") == (404, {"reason": "Schema not found"})
    assert broker.rest("POST", f"{path}/version", first) == (200, {"version": -1})
    assert broker.rest("POST", f"{path}/compatibility", first)[0] == 202
    for version, body in enumerate((first, second)):
        assert broker.rest("POST", f"{path}/schema", body) == (200, {"version": {"version": version}})
    assert broker.rest("POST", f"{path}/schema", first) == (200, {"version": {"version": 0}})
    assert broker.rest("POST", f"{path}/version", second) == (200, {"version": 1})
    assert broker.rest("POST", f"{path}/schema", refused)[0] == 409
    shown = broker.rest("GET", f"{path}/schema/0")[1]
    assert (shown["version"], shown["type"], shown["data"], shown["properties"]) == (
        0,
        "JSON",
        first["schema"],
        {"k": "v"},
    )
    assert shown["timestamp"] > 1_700_000_000_000
    assert broker.rest("GET", f"{path}/schema")[1]["version"] == 1
    assert [each["version"] for each in broker.rest("GET", f"{path}/schemas")[1]["getSchemaResponses"]] == [0, 1]
    assert broker.rest("GET", f"{path}/schema/7") == (404, {"reason": "Schema not found"})
    assert broker.rest("GET", f"{of_topic(topic + '-partition-3')}/schema")[1]["version"] == 1
    assert schemas.get(topic, 0)["schema"]["properties"] == [{"key": "k", "value": "v"}]


def test_what_rest_refuses(broker: Broker) -> None:
    # covers SC-12
    path = of_topic(broker.topic())
    assert broker.rest("POST", f"{path}/schema", {"type": "AVRO", "schema": "{", "properties": {}})[0] == 422
    assert broker.rest("POST", f"{path}/schema", {"type": "AUTO_CONSUME", "schema": "", "properties": {}})[0] == 422
    assert broker.rest("POST", f"{path}/schema", {"type": "NOPE", "schema": "", "properties": {}})[0] in (422, 500)
    missing = "/admin/v2/schemas/public/no-such-namespace/t"
    body = {"type": "STRING", "schema": "", "properties": {}}
    assert broker.rest("POST", f"{missing}/schema", body) == (404, {"reason": "Namespace does not exist"})
    assert broker.rest("GET", f"{missing}/schema") == (404, {"reason": "Schema not found"})


@pytest.mark.ours_only("SC-12: what does not fit is an answer, not an internal error")
def test_what_does_not_fit_is_an_answer(broker: Broker) -> None:
    # covers SC-12
    path = of_topic(broker.topic())
    broker.rest("POST", f"{path}/schema", {"type": "STRING", "schema": "", "properties": {}})
    body = {"type": "INT32", "schema": "", "properties": {}}
    answer = {"compatibility": False, "schemaCompatibilityStrategy": "FULL"}
    assert broker.rest("POST", f"{path}/compatibility", body) == (202, answer)
