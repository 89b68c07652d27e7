"""Messages as objects of JSON lines, and values by their schemas, there and back."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import struct
from collections.abc import Mapping
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.cli.messages.decoding import Decoder
from spark_pulsar.cli.messages.encoding import Encoder, Unencodable
from spark_pulsar.cli.messages.records import InvalidRecord, Outgoing, outgoing_of, record_of
from spark_pulsar.client.schema_requests import RegisteredSchema
from spark_pulsar.model.schemas import Schema, SchemaType, join_key_and_value

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


class Received:
    """A message as the official client gives it: what was sent, with marks of the broker."""

    def __init__(self, sent: Outgoing, version: int = -1) -> None:
        self.sent = sent
        self.version = version
        self._message = self

    def int_schema_version(self) -> int:
        return self.version

    def message_id(self) -> Received:
        return self

    def ledger_id(self) -> int:
        return 12

    entry_id = partition = batch_index = redelivery_count = lambda self: 0

    def publish_timestamp(self) -> int:
        return 1_795_484_960_636

    def topic_name(self) -> str:
        return "persistent://public/default/t"

    def producer_name(self) -> str:
        return "p"

    def partition_key(self) -> str:
        return self.sent.key or ""

    def ordering_key(self) -> str:
        return self.sent.ordering_key or ""

    def properties(self) -> Mapping[str, str]:
        return self.sent.properties

    def event_timestamp(self) -> int:
        return self.sent.event_time_ms or 0

    def has_null_value(self) -> bool:
        return self.sent.value is None

    def data(self) -> bytes:
        return self.sent.value or b""


def decoder(schema: Schema | None) -> Decoder:
    return Decoder(lambda _topic, _version: schema)


SCHEMAS = st.sampled_from(
    [
        None,
        Schema(SchemaType.STRING),
        Schema(SchemaType.JSON, b"{}"),
        Schema(SchemaType.INT32),
        Schema(SchemaType.DOUBLE),
        Schema(SchemaType.BOOLEAN),
        Schema(SchemaType.LOCAL_DATE_TIME),
        Schema(SchemaType.AVRO, b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": "bytes"}]}'),
        Schema(SchemaType.AVRO, b'"string"'),
        Schema(
            SchemaType.KEY_VALUE,
            join_key_and_value(b"", b""),
            {"key.schema.type": "STRING", "value.schema.type": "INT32"},
        ),
    ]
)
PAYLOADS = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.text().map(lambda text: text.encode(errors="ignore")),
    st.floats().map(lambda number: struct.pack(">d", number)),
)
MESSAGES = st.builds(
    Outgoing,
    PAYLOADS,
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.dictionaries(TEXTS, TEXTS, max_size=3),
    st.none() | st.integers(1, (1 << 63) - 1),
)


@given(MESSAGES, SCHEMAS)
def test_a_printed_line_is_the_message_byte_by_byte(sent: Outgoing, schema: Schema | None) -> None:
    line = json.dumps(record_of(Received(sent), decoder(schema)), ensure_ascii=False, allow_nan=False)  # type: ignore[arg-type]
    assert "\n" not in line
    assert outgoing_of(line.encode()) == sent


@given(st.binary(max_size=60) | st.recursive(st.none() | st.integers(), st.lists).map(json.dumps).map(str.encode))
def test_any_line_is_a_message_or_refused(line: bytes) -> None:
    with contextlib.suppress(InvalidRecord):
        assert isinstance(outgoing_of(line), Outgoing)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "want an object"),
        ("{}", "neither value nor value_base64"),
        ('{"value": "", "valeu": 1}', "unknown member 'valeu'"),
        ('{"value": "", "key": 7}', "key: want a text or null"),
        ('{"value": "", "properties": {"a": 1}}', "properties: want an object of texts"),
        ('{"value": "", "event_time_ms": -1}', "event_time_ms: want milliseconds"),
        ('{"value": "", "event_time_ms": true}', "event_time_ms: want milliseconds"),
        ('{"value_base64": "?"}', "value_base64: no base64"),
        ('{"value_base64": 7}', "value_base64: no base64"),
        ('{"value": "\\ud800"}', "half of a UTF-16 pair"),
        ('{"value": "", "key": "\\ud800"}', "half of a UTF-16 pair"),
    ],
)
def test_lines_that_are_no_messages(line: str, said: str) -> None:
    with pytest.raises(InvalidRecord, match=f".*{said}"):
        outgoing_of(line.encode())


@pytest.mark.parametrize(
    ("kind", "payload", "value"),
    [
        (SchemaType.BOOLEAN, b"\1", True),
        (SchemaType.INT8, b"\xff", -1),
        (SchemaType.INT16, b"\1\0", 256),
        (SchemaType.INT32, b"\0\0\0\7", 7),
        (SchemaType.INT64, struct.pack(">q", -7), -7),
        (SchemaType.FLOAT, struct.pack(">f", 0.5), 0.5),
        (SchemaType.DOUBLE, struct.pack(">d", 0.5), 0.5),
        (SchemaType.DATE, struct.pack(">q", 86_400_000), "1970-01-02"),
        (SchemaType.TIME, struct.pack(">q", 3_600_000), "01:00:00"),
        (SchemaType.TIMESTAMP, struct.pack(">q", 1500), "1970-01-01T00:00:01.500000+00:00"),
        (SchemaType.INSTANT, struct.pack(">qi", 1, 500_000_000), "1970-01-01T00:00:01.500000+00:00"),
        (SchemaType.LOCAL_DATE, struct.pack(">q", -1), "1969-12-31"),
        (SchemaType.LOCAL_TIME, struct.pack(">q", 10**9), "00:00:01"),
        (SchemaType.LOCAL_DATE_TIME, struct.pack(">qq", 1, 10**9), "1970-01-02T00:00:01"),
        (SchemaType.STRING, "ä".encode(), "ä"),
    ],
)
def test_payloads_of_primitive_schemas(kind: SchemaType, payload: bytes, value: Any) -> None:
    found = decoder(Schema(kind)).decode("t", 0, "", payload)
    assert found == (value, kind.name)


@pytest.mark.parametrize(
    ("schema", "payload"),
    [
        (Schema(SchemaType.INT32), b"\0\0\0"),
        (Schema(SchemaType.BOOLEAN), b"\2"),
        (Schema(SchemaType.JSON, b""), b"{"),
        (Schema(SchemaType.DOUBLE), struct.pack(">d", math.nan)),
        (Schema(SchemaType.AVRO, b'"string"'), b"\x02ab"),
        (Schema(SchemaType.AVRO, b"nonsense"), b"\x02a"),
        (Schema(SchemaType.STRING), b"\xff"),
        (Schema(SchemaType.PROTOBUF_NATIVE, b""), b""),
    ],
)
def test_payloads_that_do_not_fit_are_shown_as_they_are(schema: Schema, payload: bytes) -> None:
    assert decoder(schema).decode("t", 0, "", payload) is None


def test_pairs_of_key_and_value() -> None:
    types = {"key.schema.type": "STRING", "value.schema.type": "INT32"}
    data = join_key_and_value(b"", b"")
    pair = b"\0\0\0\1k" + b"\0\0\0\4\0\0\0\7"
    inline = decoder(Schema(SchemaType.KEY_VALUE, data, types))
    assert inline.decode("t", 0, "", pair) == ({"key": "k", "value": 7}, "KEY_VALUE")
    assert inline.decode("t", 0, "", b"\xff\xff\xff\xff\xff\xff\xff\xff") == ({"key": None, "value": None}, "KEY_VALUE")
    assert inline.decode("t", 0, "", pair + b"x") is None
    separated = decoder(Schema(SchemaType.KEY_VALUE, data, types | {"kv.encoding.type": "SEPARATED"}))
    key = base64.b64encode(b"k").decode()
    assert separated.decode("t", 0, key, b"\0\0\0\7") == ({"key": "k", "value": 7}, "KEY_VALUE")


def test_the_registry_is_asked_once_for_each_version_of_a_topic() -> None:
    asked = []

    def lookup(topic: str, version: bytes | None) -> Schema:
        asked.append((topic, version))
        return Schema(SchemaType.STRING)

    found = Decoder(lookup)
    for topic in ("t-partition-0", "t-partition-1", "t"):
        for version in (-1, 1, 1):
            assert found.decode(topic, version, "", b"x") is not None
    assert asked == [("t", None), ("t", (1).to_bytes(8, "big"))]


FIELDS = b'[{"name": "n", "type": "long"}, {"name": "t", "type": ["null", "string"]}]'
RECORD = b'{"type": "record", "name": "R", "fields": %b}' % FIELDS
ANY_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def encoder(schema: Schema) -> Encoder:
    return Encoder("t", RegisteredSchema("t", schema, b""))


VALUES = st.one_of(
    st.tuples(
        st.just(Schema(SchemaType.AVRO, RECORD)),
        st.fixed_dictionaries({"n": st.integers(-(1 << 63), (1 << 63) - 1), "t": st.none() | ANY_TEXTS}),
    ),
    st.tuples(
        st.just(Schema(SchemaType.JSON, RECORD)), st.dictionaries(ANY_TEXTS, ANY_TEXTS | st.integers() | st.none())
    ),
    st.tuples(st.just(Schema(SchemaType.STRING)), ANY_TEXTS),
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
