"""Fields that the schema of a read lacks, by `schemaEvolutionMode`: rescued, or the end of a query that names them."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from typing import Any

import fastavro
import pulsar
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import Row
from pyspark.sql.types import StructType

from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.types.protobuf_types import root_message
from spark_pulsar.model.schemas import Schema, SchemaType
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.spark.flows import Flows

ID: dict[str, Any] = {"name": "id", "type": "int"}
NOTE: dict[str, Any] = {"name": "note", "type": ["null", "string"], "default": None}
PRICE: dict[str, Any] = {"name": "price", "type": ["null", "double"], "default": None}
REFUSED = (Exception,)


class Orders:
    """A topic whose schema gets versions: `OLD` has id and note, `NEW` has id and price, too, `LAST` lacks note."""

    FIELDS: Mapping[str, tuple[tuple[str, int], ...]] = {
        "OLD": (("id", 1), ("note", 2)),
        "NEW": (("id", 1), ("note", 2), ("price", 3)),
        "LAST": (("id", 1), ("price", 3)),
    }

    def __init__(self, flows: Flows, kind: str) -> None:
        self.flows, self.kind = flows, SchemaType[kind]
        self.topic = flows.broker.topic("orders")
        flows.wire().publisher(self.topic).close()
        self._versions: dict[str, bytes] = {}

    def _schema(self, version: str) -> Schema:
        names = self.FIELDS[version]
        if self.kind is not SchemaType.PROTOBUF_NATIVE:
            fields = {"id": ID, "note": NOTE, "price": PRICE}
            definition = {"type": "record", "name": "Order", "fields": [fields[name] for name, _ in names]}
            return Schema(self.kind, json.dumps(definition).encode())
        file = FileDescriptorProto(name="order.proto", syntax="proto3")
        message = file.message_type.add(name="Order")
        types = {"id": FieldDescriptorProto.TYPE_INT32, "note": FieldDescriptorProto.TYPE_STRING}
        for name, number in names:
            kind = types.get(name, FieldDescriptorProto.TYPE_DOUBLE)
            message.field.add(name=name, number=number, type=kind, label=FieldDescriptorProto.LABEL_OPTIONAL)
        text = {
            "fileDescriptorSet": base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode(),
            "rootMessageTypeName": "Order",
            "rootFileDescriptorName": "order.proto",
        }
        return Schema(self.kind, json.dumps(text).encode())

    def send(self, version: str, *rows: Mapping[str, Any]) -> None:
        """Publishes rows under a version of the schema, which is registered when it is new."""
        schema, wire = self._schema(version), self.flows.wire()
        if version not in self._versions:
            self._versions[version] = wire.register_schema(self.topic, schema)
        with wire.publisher(self.topic) as publisher:
            for row in rows:
                publisher.send(MessageMetadata(schema_version=self._versions[version]), self._payload(schema, row))

    def _payload(self, schema: Schema, row: Mapping[str, Any]) -> bytes:
        if self.kind is SchemaType.JSON:
            return json.dumps(row).encode()
        if self.kind is SchemaType.PROTOBUF_NATIVE:
            return bytes(GetMessageClass(root_message(Definition(schema)))(**row).SerializeToString())
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema.data)), row)
        return out.getvalue()


def rescued(row: Row) -> dict[str, Any] | None:
    """The rescued fields of a row; checks that its place is the one of its message."""
    if row["_rescued_data"] is None:
        return None
    found: dict[str, Any] = json.loads(row["_rescued_data"])
    assert found.pop("_topic") == row["__topic"]
    at = pulsar.MessageId.deserialize(bytes(row["__messageId"]))
    assert found.pop("_message_id").startswith(f"{at.ledger_id()}:{at.entry_id()}:")
    assert isinstance(found.pop("_schema_version"), int)
    return found


@pytest.mark.parametrize(
    "kind", ["AVRO", *(pytest.param(kind, marks=pytest.mark.long) for kind in ("JSON", "PROTOBUF_NATIVE"))]
)
def test_new_fields_are_rescued_or_end_the_query_which_then_has_them(flows: Flows, kind: str) -> None:
    # covers SCHEMA-20, SCHEMA-21
    orders = Orders(flows, kind)
    orders.send("OLD", {"id": 1, "note": "a"})
    planned = flows.stream(orders.topic, schemaEvolutionMode="rescue")
    ending = flows.stream(orders.topic, schemaEvolutionMode="addNewColumns")
    left_out = flows.stream(orders.topic)
    assert planned.schema.names[:3] == ["id", "note", "_rescued_data"]
    assert "_rescued_data" not in left_out.schema.names
    checkpoint = flows.checkpoint()
    [[first]] = flows.drain(ending, checkpoint)
    assert (first.id, first.note, first._rescued_data) == (1, "a", None)
    orders.send("NEW", {"id": 2, "note": "b", "price": 1.5}, {"id": 3, "note": "c", "price": 0.25})

    rows = [row for batch in flows.drain(planned, flows.checkpoint()) for row in batch]
    assert [(row.id, row.note, rescued(row)) for row in rows] == [
        (1, "a", None), (2, "b", {"price": 1.5}), (3, "c", {"price": 0.25}),
    ]  # fmt: skip
    assert [row.id for batch in flows.drain(left_out, flows.checkpoint()) for row in batch] == [1, 2, 3]
    with pytest.raises(REFUSED, match=r"version 1 have columns that this read, .* lacks: price double .*addNewColumns"):
        flows.drain(ending, checkpoint)

    # started again, the query has the column; then a version without the old one comes
    again = flows.stream(orders.topic, schemaEvolutionMode="addNewColumns")
    orders.send("LAST", {"id": 4, "price": 2.0})
    rows = [row for batch in flows.drain(again, checkpoint) for row in batch]
    missing = "" if kind == "PROTOBUF_NATIVE" else None
    assert [(row.id, row.note, row.price, row._rescued_data) for row in rows] == [
        (2, "b", 1.5, None), (3, "c", 0.25, None), (4, missing, 2.0, None),
    ]  # fmt: skip
    # a batch read of the newest version, as a table: the field that it no longer has is rescued, and is not new
    for mode in ("rescue", "failOnNewColumns", "addNewColumns"):
        found = flows.batch(orders.topic, schemaEvolutionMode=mode, rescuedDataColumn="_rescued_data")
        assert [(row.id, row.price, rescued(row)) for row in found.collect()] == [
            (1, 0.0 if kind == "PROTOBUF_NATIVE" else None, {"note": "a"}), (2, 1.5, {"note": "b"}),
            (3, 0.25, {"note": "c"}), (4, 2.0, None),
        ]  # fmt: skip


def test_json_outside_of_all_schemas_is_rescued_or_refused(flows: Flows) -> None:
    # covers SCHEMA-20, SCHEMA-21
    orders = Orders(flows, "JSON")
    orders.send("OLD", {"id": 1, "note": "a"}, {"id": "x", "note": "b", "more": {"deep": [1, None]}}, {"id": 3})
    expected = [(1, "a", None), (None, "b", {"id": "x", "more": {"deep": [1, None]}}), (3, None, None)]
    for mode in ("rescue", "addNewColumns", "none"):
        for failing in ("FAILFAST", "PERMISSIVE"):
            frame = flows.batch(orders.topic, schemaEvolutionMode=mode, rescuedDataColumn="_rescued_data", mode=failing)
            assert [(row.id, row.note, rescued(row)) for row in frame.collect()] == expected
    undeclared = Orders(flows, "JSON")
    undeclared.send("OLD", {"id": 1, "note": "a"}, {"id": 2, "more": {"deep": [1, None]}})
    with pytest.raises(REFUSED, match=r"no version of the schema has: more struct<deep:array<bigint>> "):
        flows.batch(undeclared.topic, schemaEvolutionMode="failOnNewColumns").collect()
    # a schema of the user is a projection: what it leaves out is not rescued, what no schema has is
    reader = flows.reader(orders.topic, schemaEvolutionMode="rescue", rescuedDataColumn="rest")
    rows = reader.schema("note string, rest string").load().collect()
    assert [row.note for row in rows] == ["a", "b", None]
    assert [row.rest is None or json.loads(row.rest)["more"] for row in rows] == [True, {"deep": [1, None]}, True]
    [text] = [row.rest for row in reader.schema("rest string").load().collect() if row.rest is not None]
    assert {"id", "more"} < json.loads(text).keys()
    with pytest.raises(REFUSED, match="rescued data has the column rest, and the schema of the read does not"):
        reader.schema("note string").load().collect()


def test_topics_without_fields_refuse_the_option(flows: Flows) -> None:
    # covers SCHEMA-20
    plain = flows.broker.topic("plain")
    flows.send(plain, ["m"])
    typed = flows.broker.topic("typed")
    flows.write(flows.rows("value string", [("m",)]), typed, schemaType="STRING")
    for topic, there in ((plain, "have no schema"), (typed, "have the schema STRING")):
        for options, name in (
            ({"schemaEvolutionMode": "rescue"}, "schemaEvolutionMode"),
            ({"schemaEvolutionMode": "failOnNewColumns"}, "schemaEvolutionMode"),
            ({"rescuedDataColumn": "rest"}, "rescuedDataColumn"),
        ):
            with pytest.raises(REFUSED, match=rf"option {name} needs topics whose schema has fields .* {there}"):
                flows.batch(topic, **options)
        declared = flows.reader(topic, schemaEvolutionMode="addNewColumns").schema(StructType().add("value", "binary"))
        with pytest.raises(REFUSED, match="option schemaEvolutionMode needs topics whose schema has fields"):
            declared.load().collect()
        assert flows.batch(topic, schemaEvolutionMode="none").count() == 1
