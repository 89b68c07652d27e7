"""Columns: what may be asked for and what may be written."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

from spark_pulsar.connector.columns import READ_COLUMNS
from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.reading.projection import READ_DDL, projection_of
from spark_pulsar.connector.writing.columns import check_writable


@dataclass
class Kind:
    name: str

    def simpleString(self) -> str:
        return self.name


@dataclass
class Field:
    name: str
    dataType: Kind
    nullable: bool = True


@dataclass
class Schema:
    fields: list[Field]


def schema(ddl: str) -> Schema:
    parts = [part.strip() for part in ddl.split(";") if part.strip()]
    return Schema(
        [Field(part.split()[0], Kind(part.split()[1]), "NOT NULL" not in part) for part in parts],
    )


def test_the_default_is_every_column() -> None:
    projection = projection_of(schema(READ_DDL.replace(", ", ";")))
    assert projection.names == tuple(column.name for column in READ_COLUMNS)
    assert not projection.as_string
    assert not projection.not_null


def test_a_projection_keeps_order_and_knows_strings() -> None:
    projection = projection_of(schema("__topic string; value string NOT NULL; __key binary"))
    assert projection.names == ("__topic", "value", "__key")
    assert projection.as_string == {"value"}
    assert projection.not_null == {"value"}


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("", "names no column"),
        ("values binary", "no column values can be read; did you mean value"),
        ("__messageid binary", "did you mean __messageId"),
        ("value bigint", "value is binary or string, it cannot be read as bigint"),
        ("__publishTime timestamp_ntz", "is timestamp"),
        ("value binary; value binary", "twice"),
    ],
)
def test_wrong_projections(ddl: str, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        projection_of(schema(ddl))


def test_fit_gives_exactly_the_schema_asked_for() -> None:
    batch = pa.record_batch(
        {"value": pa.array([b"a", None], pa.binary()), "__key": pa.array([b"k", b"l"], pa.binary())}
    )
    fitted = projection_of(schema("value string; __key binary NOT NULL")).fit(batch)
    assert fitted.schema == pa.schema([pa.field("value", pa.string()), pa.field("__key", pa.binary(), nullable=False)])
    assert fitted.to_pydict() == {"value": ["a", None], "__key": [b"k", b"l"]}
    with pytest.raises(SchemaError, match="value was declared NOT NULL"):
        projection_of(schema("value binary NOT NULL; __key binary")).fit(batch)
    with pytest.raises(SchemaError, match="no UTF-8"):
        projection_of(schema("value string")).fit(pa.record_batch({"value": pa.array([b"\xff"], pa.binary())}))


@pytest.mark.parametrize(
    ("ddl", "topic", "reason"),
    [
        ("__key string", "t", "no column value"),
        ("value string", None, "rows need a topic"),
        ("value bigint", "t", "value must be string or binary or struct, not bigint"),
        ("value string; carrier string", "t", r"carrier cannot be written; set schemaType to AVRO or JSON .* struct"),
        ("value string; key string", "t", "did you mean __key"),
        (
            "value string; __messageId binary; __publishTime timestamp",
            "t",
            "__messageId and __publishTime cannot be written",
        ),
        ("value string; __eventTime int", "t", "__eventTime must be timestamp or timestamp_ntz or bigint"),
        ("value string; value binary", "t", "twice"),
    ],
)
def test_wrong_columns_to_write(ddl: str, topic: str | None, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        check_writable(schema(ddl), topic)


def test_right_columns_to_write() -> None:
    check_writable(
        schema("value struct<a:int>; __key binary; __eventTime bigint; __messageProperties map<string,string>"), "t"
    )
    check_writable(schema("__topic string; value binary"), None)


def test_a_value_that_is_bytes_by_the_topics_schema_is_that_and_not_the_payload() -> None:
    from spark_pulsar.connector.schemas.definition import Definition
    from spark_pulsar.model import schemas

    types = {"key.schema.type": "STRING", "value.schema.type": "BYTES", "kv.encoding.type": "INLINE"}
    both = schemas.Schema(schemas.SchemaType.KEY_VALUE, schemas.join_key_and_value(b"", b""), types)
    definition = b'{"type":"record","name":"R","fields":[{"name":"value","type":"bytes"}]}'
    for topic in (both, schemas.Schema(schemas.SchemaType.AVRO, definition)):
        decoding = projection_of(schema("value binary"), Definition(topic)).decoding
        assert decoding is not None
        assert decoding.wanted == (("value", pa.binary()),)
