"""Values encoded by a schema come out of it again, and what does not fit is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.cli.messages.decoding import Decoder
from spark_pulsar.cli.messages.encoding import Encoder, Unencodable
from spark_pulsar.client.schema_requests import RegisteredSchema
from spark_pulsar.model.schemas import Schema, SchemaType

FIELDS = b'[{"name": "n", "type": "long"}, {"name": "t", "type": ["null", "string"]}]'
RECORD = b'{"type": "record", "name": "R", "fields": %b}' % FIELDS
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def encoder(schema: Schema) -> Encoder:
    return Encoder("t", RegisteredSchema("t", schema, b""))


VALUES = st.one_of(
    st.tuples(
        st.just(Schema(SchemaType.AVRO, RECORD)),
        st.fixed_dictionaries({"n": st.integers(-(1 << 63), (1 << 63) - 1), "t": st.none() | TEXTS}),
    ),
    st.tuples(st.just(Schema(SchemaType.JSON, RECORD)), st.dictionaries(TEXTS, TEXTS | st.integers() | st.none())),
    st.tuples(st.just(Schema(SchemaType.STRING)), TEXTS),
    st.tuples(st.just(Schema(SchemaType.INT16)), st.integers(-(1 << 15), (1 << 15) - 1)),
    st.tuples(st.just(Schema(SchemaType.DOUBLE)), st.floats(allow_nan=False, allow_infinity=False)),
)


@given(VALUES)
def test_an_encoded_value_is_decoded_to_itself(pair: tuple[Schema, Any]) -> None:
    schema, value = pair
    payload = encoder(schema).encode(value)
    assert Decoder(lambda _topic, _version: schema).decode("t", 0, "", payload) == (value, schema.type.name)
    text = value if schema.type is SchemaType.STRING else json.dumps(value)
    assert encoder(schema).encode_text(text.encode()) == payload


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (Schema(SchemaType.AVRO, RECORD), b"[1]"),
        (Schema(SchemaType.AVRO, RECORD), b'{"n": "x", "t": null}'),
        (Schema(SchemaType.AVRO, RECORD), b"nonsense"),
        (Schema(SchemaType.JSON, RECORD), b"NaN"),
        (Schema(SchemaType.STRING), b"\xff"),
        (Schema(SchemaType.INT8), b"128"),
        (Schema(SchemaType.INT8), b"true"),
        (Schema(SchemaType.INT8), b"1.5"),
    ],
)
def test_values_that_do_not_fit(schema: Schema, text: bytes) -> None:
    with pytest.raises(Unencodable, match=f"{schema.type.name} schema"):
        encoder(schema).encode_text(text)


def test_schemas_that_are_not_encoded_by(capsys: pytest.CaptureFixture[str]) -> None:
    for found in (None, RegisteredSchema("t", Schema(SchemaType.PROTOBUF_NATIVE), b"")):
        with pytest.raises(typer.Exit):
            Encoder("t", found)
    assert capsys.readouterr().err.splitlines() == [
        f"spark-pulsar: t has {has}: --schema encodes by AVRO, JSON, STRING, INT8, INT16, INT32, INT64, FLOAT, DOUBLE"
        for has in ("no schema", "a schema of the type PROTOBUF_NATIVE")
    ]
