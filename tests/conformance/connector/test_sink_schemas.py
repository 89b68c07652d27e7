"""The sink's driver agrees with the registry of both brokers on the schema of rows, or tells why it cannot."""

from __future__ import annotations

from typing import Any

import pulsar
import pyarrow as pa
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_WRITE
from spark_pulsar.connector.schemas.deriving.registration import agreed_schema
from spark_pulsar.connector.schemas.deriving.row_schema import RowSchema, derive_row_schema
from spark_pulsar.connector.writing.task_writing import publish
from spark_pulsar.model.schemas import Compatibility, Schema, SchemaType
from tests.brokers import Broker
from tests.conformance.schemas import A, fresh_namespace, record, set_policy, topic_in
from tests.eventually import eventually


def options_of(broker: Broker, topic: str, **options: str) -> Options:
    return parse_options({"service.url": broker.service_url, "topic": topic, **options}).for_write(BATCH_WRITE)


def rows_of(broker: Broker, topic: str, columns: dict[str, str], kind: str = "AVRO", **options: str) -> RowSchema:
    """The schema of columns, given as Spark types; one that ends in `?` is nullable."""
    fields: list[dict[str, Any]] = [
        {"name": name, "type": spark_type.removesuffix("?"), "nullable": spark_type.endswith("?")}
        for name, spark_type in columns.items()
    ]
    found = derive_row_schema(fields, options_of(broker, topic, schemaType=kind, **options))
    assert found is not None
    return found


def refusal(client: PulsarClient, topic: str, rows: RowSchema) -> str:
    with pytest.raises(SchemaError) as refused:
        agreed_schema(client, topic, rows)
    return str(refused.value)


# Rows that follow a topic with a: int, b: long or null. What each strategy refuses tells the fields.
CASES: list[tuple[str, dict[str, str], str]] = [
    ("BACKWARD", {"a": "integer", "b": "long?", "c": "string"}, "c (string, no default) is in the DataFrame"),
    ("FULL", {"a": "integer", "b": "long?", "c": "string"}, "c (string, no default) is in the DataFrame"),
    ("FULL_TRANSITIVE", {"a": "string", "b": "long?"}, "a is int on the topic, but string in the DataFrame"),
    ("ALWAYS_INCOMPATIBLE", {"a": "integer", "b": "long?", "c": "string?"}, "c (string or null, default null)"),
]


@pytest.mark.parametrize(("strategy", "columns", "told"), CASES)
def test_what_a_strategy_refuses_is_told(
    broker: Broker, client: PulsarClient, strategy: str, columns: dict[str, str], told: str
) -> None:
    namespace = fresh_namespace(broker)
    topic = topic_in(namespace)
    set_policy(broker, namespace, "schemaCompatibilityStrategy", strategy)
    first = rows_of(broker, topic, {"a": "integer", "b": "long?"})
    client.publisher(topic, schema=first.schema).close()
    assert agreed_schema(client, topic, first) == first
    text = refusal(client, topic, rows_of(broker, topic, columns))
    assert told in text
    assert "compared with version 0 of the topic's schema" in text
    assert f"schema compatibility strategy {strategy} decides" in text
    assert f"--compatibility ... public/{namespace.rpartition('/')[2]}" in text
    found = client.schema_of(topic)
    assert found is not None
    assert found.schema.data == first.schema.data


@pytest.mark.parametrize("strategy", ["BACKWARD", "FORWARD", "ALWAYS_COMPATIBLE"])
def test_a_required_column_that_is_missing_is_named_under_every_strategy(
    broker: Broker, client: PulsarClient, strategy: str
) -> None:
    # covers SCHEMA-6
    namespace = fresh_namespace(broker)
    topic = topic_in(namespace)
    set_policy(broker, namespace, "schemaCompatibilityStrategy", strategy)
    client.publisher(topic, schema=rows_of(broker, topic, {"a": "integer", "b": "long?"}).schema).close()
    text = refusal(client, topic, rows_of(broker, topic, {"b": "long?"}))
    assert "a (int, no default) is on the topic, but not in the DataFrame" in text


def test_an_older_version_that_stands_in_the_way_is_told(broker: Broker, client: PulsarClient) -> None:
    namespace = fresh_namespace(broker)
    topic = topic_in(namespace)
    set_policy(broker, namespace, "schemaCompatibilityStrategy", Compatibility.BACKWARD.value)
    for columns in ({"a": "integer", "b": "integer?"}, {"a": "integer"}):
        client.publisher(topic, schema=rows_of(broker, topic, columns).schema).close()
    set_policy(broker, namespace, "schemaCompatibilityStrategy", Compatibility.BACKWARD_TRANSITIVE.value)
    rows = rows_of(broker, topic, {"a": "integer", "b": "string?"})
    text = eventually(lambda: refusal(client, topic, rows))
    assert "compared with version 0 of the topic's schema, b is int on the topic, but string in the DataFrame" in text


def test_other_reasons_are_told(broker: Broker, client: PulsarClient) -> None:
    namespace = fresh_namespace(broker)
    topic = topic_in(namespace)
    client.publisher(topic, schema=rows_of(broker, topic, {"a": "integer"}).schema).close()
    assert "is AVRO: use schemaType AVRO" in refusal(client, topic, rows_of(broker, topic, {"a": "integer"}, "JSON"))
    set_policy(broker, namespace, "isAllowAutoUpdateSchema", False)
    text = refusal(client, topic, rows_of(broker, topic, {"a": "integer", "b": "string?"}))
    assert f"set-is-allow-auto-update-schema --enable public/{namespace.rpartition('/')[2]}" in text


def test_key_and_value_are_compared_each(broker: Broker, topic: str, client: PulsarClient) -> None:
    client.publisher(
        topic, schema=rows_of(broker, topic, {"key": "integer", "value": "long"}, "KEY_VALUE").schema
    ).close()
    rows = rows_of(broker, topic, {"key": "integer", "value": "string"}, "KEY_VALUE")
    told = "is key INT32, value INT64, INLINE, that of the DataFrame key INT32, value STRING, INLINE"
    assert told in refusal(client, topic, rows)
    columns = {"key": "integer", "value": "long"}
    separated = rows_of(broker, topic, columns, "KEY_VALUE", keyValueEncodingType="SEPARATED")
    assert "value INT64, INLINE, that of the DataFrame key INT32, value INT64, SEPARATED" in refusal(
        client, topic, separated
    )
    assert agreed_schema(client, topic, rows_of(broker, topic, {"key": "integer", "value": "long"}, "KEY_VALUE"))


def test_a_missing_topic_is_made_by_the_first_row(broker: Broker, topic: str, client: PulsarClient) -> None:
    rows = rows_of(broker, topic, {"a": "integer"})
    assert agreed_schema(client, topic, rows) == rows
    assert client.schema_of(topic) is None
    assert topic not in client.topics_of("public/default")
    batch = pa.record_batch({"a": pa.array([1, 2], pa.int32())})
    assert publish(client, options_of(broker, topic, schemaType="AVRO"), iter([batch]), rows) == 2
    found = client.schema_of(topic)
    assert found is not None
    assert (found.schema.data, found.version) == (rows.schema.data, bytes(8))


def test_the_topics_own_definition_is_kept_and_asked_for_once(broker: Broker, topic: str, client: PulsarClient) -> None:
    own = Schema(SchemaType.AVRO, record(A, {"name": "b", "type": ["long", "null"]}, name="Own"))
    client.publisher(topic, schema=own).close()
    rows = rows_of(broker, topic, {"b": "integer?", "a": "integer"})
    assert agreed_schema(client, topic, rows).schema.data == own.data
    nobody = PulsarClient(ClientConfig(service_url=broker.service_url, operation_timeout_ms=1))
    assert agreed_schema(nobody, topic, rows).schema.data == own.data
    assert nobody._engine is None  # not even a connection


def test_strings_of_any_client_fit(broker: Broker, topic: str, client: PulsarClient) -> None:
    broker.client().create_producer(topic, schema=pulsar.schema.StringSchema()).close()
    agreed = agreed_schema(client, topic, rows_of(broker, topic, {"a": "string?"}, "STRING"))
    found = client.schema_of(topic)
    assert found is not None
    assert agreed.schema == found.schema
