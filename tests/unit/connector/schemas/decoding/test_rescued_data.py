"""Rescued data: fields that the schema of a read lacks come out beside its columns, exactly and on every way of
decoding; differential against `json` and fastavro."""

from __future__ import annotations

import base64
import decimal
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.connector.errors import NewColumnsError, SchemaError
from spark_pulsar.connector.options.decode_mode import ADD_NEW_COLUMNS, FAIL_ON_NEW_COLUMNS, RESCUE, DecodeMode
from spark_pulsar.connector.schemas.decoding.avro.rescuing import AvroRescuingDecoder, avro_decoder
from spark_pulsar.connector.schemas.decoding.evolution import Evolution, check_has_fields
from spark_pulsar.connector.schemas.decoding.messages import MessageDecoder
from spark_pulsar.connector.schemas.decoding.unusual_json import LEAST_ROWS
from spark_pulsar.connector.schemas.definition import Definition
from spark_pulsar.connector.schemas.payloads.rescued import with_places
from spark_pulsar.connector.schemas.types.columns import value_columns
from spark_pulsar.connector.schemas.types.protobuf_types import root_message
from spark_pulsar.model.schemas import Schema, SchemaType, join_key_and_value

Row = tuple[Any, ...]
A: dict[str, Any] = {"name": "a", "type": "int"}
B: dict[str, Any] = {"name": "b", "type": ["null", "string"], "default": None}
S: dict[str, Any] = {
    "name": "s",
    "type": ["null", {"type": "record", "name": "S", "fields": [{"name": "x", "type": "long"}]}],
    "default": None,
}
L: dict[str, Any] = {
    "name": "l",
    "type": {"type": "array", "items": {"type": "record", "name": "I", "fields": [{"name": "y", "type": "string"}]}},
    "default": [],
}
M: dict[str, Any] = {
    "name": "m",
    "type": {"type": "map", "values": {"type": "record", "name": "V", "fields": [{"name": "z", "type": "int"}]}},
    "default": {},
}


def record(*fields: dict[str, Any], kind: SchemaType = SchemaType.JSON, version: int = 0) -> Definition:
    data = json.dumps({"type": "record", "name": "R", "fields": list(fields)}).encode()
    return Definition(Schema(kind, data), "R", version.to_bytes(8, "big"))


def avro(definition: Definition, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(definition.schema.data)), value)
    return out.getvalue()


def evolution(mode: str = RESCUE, newest: Callable[[], Definition | None] = lambda: None) -> Evolution:
    found = Evolution.of(DecodeMode(schema_evolution=mode, rescued_data="_rescued_data"), "topic", newest)
    assert found is not None
    return found


def decoded(
    reader: Definition,
    payloads: Sequence[bytes | None],
    versions: Sequence[Definition] = (),
    numbers: Sequence[int] = (),
    names: Sequence[str] = (),
    way: Evolution | None = None,
) -> tuple[list[Row], list[str | None], dict[int, str]]:
    """Rows, rescued texts and errors."""
    columns = value_columns(reader)
    wanted = pa.schema([columns.field(name) for name in names or columns.names])
    decoder = MessageDecoder(reader, wanted, lambda version: versions[version], evolution=way or evolution())
    marks = pa.array(list(numbers) or [-1] * len(payloads), pa.int64())
    found = decoder.decode(pa.array(payloads, pa.binary()), None, marks)
    rows = list(zip(*(column.to_pylist() for column in found.columns.values()), strict=True))
    return rows, found.rescued.to_pylist(), found.errors


JSON_PAYLOADS: list[bytes | None] = [
    b'{"a":1}',
    b'{"a":1,"q":2.50,"n":null}',
    b'{"a":"x","s":{"x":1,"w":true}}',
    b'{"a":1,"l":[{"y":"k"},{"y":"k","n":[1]},7]}',
    b'{"a":1,"m":{"k":{"z":1,"zz":2},"j":{"z":3}}}',
    b'{"a":1',
    None,
    b'{"a":3000000000,"s":5}',
    '{"a":1,"ü":{"b":"ß"}}'.encode(),
]
JSON_ROWS: list[tuple[Row, str | None]] = [
    ((1, None, None, None), None),
    ((1, None, None, None), '{"q":2.50}'),
    ((None, {"x": 1}, None, None), '{"a":"x","s":{"w":true}}'),
    ((1, None, [{"y": "k"}, {"y": "k"}, None], None), '{"l":[null,{"n":[1]},7]}'),
    ((1, None, None, [("k", {"z": 1}), ("j", {"z": 3})]), '{"m":{"k":{"zz":2}}}'),
    ((None, None, None, None), None),
    ((None, None, None, None), None),
    ((None, None, None, None), '{"a":3000000000,"s":5}'),
    ((1, None, None, None), '{"\\u00fc":{"b":"ß"}}'),
]


@pytest.mark.parametrize("names", [(), ("a",), ("s", "a"), ("l",), ("m", "s")])
@pytest.mark.parametrize("copies", [1, LEAST_ROWS // len(JSON_PAYLOADS) + 1])
def test_json_is_rescued_on_every_way(names: tuple[str, ...], copies: int) -> None:
    # covers SCHEMA-21
    reader = record(A, S, L, M)
    rows, texts, errors = decoded(reader, JSON_PAYLOADS * copies, names=names)
    places = [("a", "s", "l", "m").index(name) for name in names or ("a", "s", "l", "m")]
    selected = set(names or ("a", "s", "l", "m"))
    for at, (row, text) in enumerate(JSON_ROWS * copies):
        assert rows[at] == tuple(row[place] for place in places), at
        # what is in a column that the read does not select is not rescued
        rescued = {} if text is None else json.loads(text)
        rescued = {name: value for name, value in rescued.items() if name in selected or name not in "aslm"}
        found = texts[at]
        assert (None if found is None else json.loads(found)) == (rescued or None), at
    if not names:
        assert [text and json.loads(text) for text in texts] == [text and json.loads(text) for _, text in JSON_ROWS] * (
            copies
        )
        assert texts[1] == '{"q":2.50}'  # with its digits
    assert [row % len(JSON_PAYLOADS) for row in sorted(errors)] == [5] * copies


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.text(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "s", "l", "m", "x", "new", "ä"]), JSON_VALUES, max_size=5)


@settings(max_examples=40, deadline=None)
@given(st.lists(OBJECTS, min_size=1, max_size=6))
def test_no_field_of_json_vanishes(objects: list[dict[str, Any]]) -> None:
    # covers SCHEMA-21
    reader = record(A, S, L, M)
    payloads: list[bytes | None] = [json.dumps(each).encode() for each in objects]
    rows, texts, errors = decoded(reader, payloads)
    many, many_texts, _ = decoded(reader, payloads * LEAST_ROWS)
    assert not errors
    assert (many, many_texts) == (rows * LEAST_ROWS, texts * LEAST_ROWS)
    for given_fields, row, text in zip(objects, rows, texts, strict=True):
        rescued = {} if text is None else json.loads(text)
        assert None not in rescued.values()
        for name, value in given_fields.items():
            if name not in ("a", "s", "l", "m"):
                assert rescued.get(name) == value
            elif value is not None and row[("a", "s", "l", "m").index(name)] is None:
                assert rescued[name] == value


@pytest.mark.parametrize("names", [(), ("a",), ("s",)])
def test_json_without_new_fields_makes_no_objects(monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]) -> None:
    # covers SCHEMA-21
    reader = record(A, S, L)
    columns = value_columns(reader)
    wanted = pa.schema([columns.field(name) for name in names or columns.names])
    decoder = MessageDecoder(reader, wanted, lambda version: None, evolution=evolution())
    payloads = pa.array([b'{"a":1,"s":{"x":2},"l":[{"y":"z"}]}'] * 3 * LEAST_ROWS, pa.binary())
    numbers = pa.array([-1] * len(payloads), pa.int64())
    decoder.decode(payloads, None, numbers)  # definitions are JSON, too

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a payload was read by Python")

    monkeypatch.setattr("json.loads", refuse)
    monkeypatch.setattr("json.JSONDecoder.decode", refuse)
    assert decoder.decode(payloads, None, numbers).rescued.null_count == len(payloads)


def test_a_field_that_no_version_has_ends_the_query_with_its_type() -> None:
    # covers SCHEMA-20
    older = record(A, B, version=0)
    reader = record(A, S, L, version=1)
    way = Evolution("topic", FAIL_ON_NEW_COLUMNS, False, lambda: reader)
    good: list[bytes | None] = [b'{"a":1,"b":"x"}']
    assert decoded(reader, good, [older, reader], [0], way=way)[:2] == ([(1, None, None)], ['{"b":"x"}'])
    for copies in (1, LEAST_ROWS):
        bad: list[bytes | None] = [b'{"a":1}', b'{"a":1,"q":{"r":1.5,"t":[true]},"l":[{"y":"","w":"u"}]}'] * copies
        with pytest.raises(
            NewColumnsError,
            match=r" has: l\[\]\.w string, q struct<r:double,t:array<boolean>> ",
        ):
            decoded(reader, bad, [older, reader], [1] * len(bad), way=way)
    mismatch = decoded(reader, [b'{"a":"x"}'], [older, reader], [1], way=way)
    assert 'field a is "x", no int' in mismatch[2][0]  # rescues nothing, so mode says what becomes of it


def test_avro_fields_of_other_versions_are_rescued() -> None:
    # covers SCHEMA-21
    inner = {"type": "long", "logicalType": "timestamp-millis"}
    s = {**S, "type": ["null", {"type": "record", "name": "S", "fields": [{"name": "x", "type": "long"}]}]}
    fields = [{"name": "x", "type": "long"}, {"name": "at", "type": inner}]
    wide = {**S, "type": ["null", {"type": "record", "name": "S", "fields": fields}]}
    d = {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}
    text = {"name": "a", "type": ["null", "string"]}
    versions = [
        record(*fields_of, kind=SchemaType.AVRO, version=number)
        for number, fields_of in enumerate([(A, s), (A, B, wide, d), (text, s), (B, A, s)])
    ]
    one = avro(versions[0], {"a": 1, "s": None})
    two = avro(versions[1], {"a": 2, "b": None, "s": {"x": 4, "at": 5}, "d": decimal.Decimal("1.25")})
    three = avro(versions[2], {"a": "xx", "s": {"x": 1}})
    four = avro(versions[3], {"a": 4, "b": "é", "s": None})
    nothing = avro(versions[3], {"a": 4, "b": None, "s": None})
    payloads: list[bytes | None] = [one, two, three, b"\x01", None, four, nothing]
    rows, texts, errors = decoded(versions[0], payloads, versions, [0, 1, 2, 1, 1, 3, 3])
    assert rows == [(1, None), (2, {"x": 4}), (None, {"x": 1}), (None, None), (None, None), (4, None), (4, None)]
    assert texts == [
        None,
        '{"s":{"at":"1970-01-01T00:00:00.005000Z"},"d":1.25}',
        '{"a":"xx"}',
        None,
        None,
        '{"b":"é"}',
        None,
    ]
    assert list(errors) == [3]
    # a column that is not selected is not rescued, a field of no column is
    assert decoded(versions[0], [two], versions, [1], ["a"])[:2] == ([(2,)], ['{"d":1.25}'])


def test_avro_without_new_fields_has_the_decoder_of_columns_alone() -> None:
    # covers SCHEMA-21
    reader = record(A, S, kind=SchemaType.AVRO)
    wanted = pa.struct(list(value_columns(reader)))
    for same in (reader, record(A, kind=reader.type), record({**A, "doc": "x"}, S, kind=reader.type)):
        assert not isinstance(avro_decoder(reader, same, wanted), AvroRescuingDecoder)
    assert isinstance(avro_decoder(reader, record(A, B, S, kind=SchemaType.AVRO), wanted), AvroRescuingDecoder)


AVRO_TYPES: dict[str, tuple[Any, Any]] = {
    "long": ("long", st.integers(-(2**60), 2**60)),
    "text": (["null", "string"], st.one_of(st.none(), st.text(max_size=4))),
    "flags": ({"type": "array", "items": "boolean"}, st.lists(st.booleans(), max_size=3)),
    "pairs": ({"type": "map", "values": "int"}, st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=2)),
    "either": (["null", "int", "string"], st.one_of(st.none(), st.integers(0, 9), st.text(max_size=2))),
}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_columns_and_rescued_avro_are_what_was_written(data: st.DataObject) -> None:
    # covers SCHEMA-21
    def fields(names: list[str], suffix: str) -> list[dict[str, Any]]:
        return [{"name": f"{name}_{suffix}", "type": AVRO_TYPES[name][0]} for name in names]

    names = st.lists(st.sampled_from(sorted(AVRO_TYPES)), unique=True, max_size=3)
    common, new, inner = data.draw(names), data.draw(names), data.draw(names)
    nested = {"type": "record", "name": "N", "fields": [*fields(["long"], "c"), *fields(inner, "n")]}
    known = {"type": "record", "name": "N", "fields": fields(["long"], "c")}
    order = data.draw(st.permutations([*fields(common, "c"), *fields(new, "n"), {"name": "r", "type": nested}]))
    writer = record(*order, kind=SchemaType.AVRO, version=1)
    reader = record(*fields(common, "c"), {"name": "r", "type": known}, kind=SchemaType.AVRO)

    def values_of(names: list[str]) -> dict[str, Any]:
        return {name: data.draw(AVRO_TYPES[name.partition("_")[0]][1]) for name in names}

    names_outside = [each["name"] for each in order if each["name"] != "r"]
    names_inside = [each["name"] for each in nested["fields"]]
    values = [values_of(names_outside) | {"r": values_of(names_inside)} for _ in range(3)]
    rows, texts, errors = decoded(reader, [avro(writer, each) for each in values], [reader, writer], [1] * 3)
    assert not errors
    for value, text, row in zip(values, texts, rows, strict=True):
        assert row[-1] == {"long_c": value["r"]["long_c"]}
        expected = {name: each for name, each in value.items() if name.endswith("_n") and each is not None}
        inside = {name: each for name, each in value["r"].items() if name.endswith("_n") and each is not None}
        expected |= {"r": inside} if inside else {}
        assert (None if text is None else json.loads(text)) == (expected or None)


def test_a_newer_version_ends_the_query_with_all_new_columns() -> None:
    # covers SCHEMA-20
    d = {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}
    for kind in (SchemaType.AVRO, SchemaType.JSON):
        versions = [record(*each, kind=kind, version=i) for i, each in enumerate([(A,), (A, B), (A, B, d), (A, S, B)])]
        one = avro(versions[1], {"a": 1, "b": "x"}) if kind is SchemaType.AVRO else b'{"a":1,"b":"x"}'
        for mode in (ADD_NEW_COLUMNS, FAIL_ON_NEW_COLUMNS):
            way = evolution(mode, lambda newest=versions[2]: newest)  # type: ignore[misc]
            with pytest.raises(
                NewColumnsError, match=r"^topic: .* version 1 .* with version 0, lacks: b string, d decimal\(9,2\) "
            ):
                decoded(versions[0], [one], versions, [1], way=way)
            # the newest schema has no such field: a query that starts again would not have it either
            gone = evolution(mode, lambda newest=versions[0]: newest)  # type: ignore[misc]
            assert decoded(versions[0], [one], versions, [1], way=gone)[:2] == ([(1,)], ['{"b":"x"}'])
        # fields inside of a column that the read does not select are not new to it
        inside = {**S, "type": ["null", {"type": "record", "name": "S", "fields": [{"name": "x", "type": "long"}, B]}]}
        wide = record(A, inside, kind=kind, version=4)
        reader = record(A, S, kind=kind, version=3)
        with pytest.raises(NewColumnsError, match=r"lacks: s\.b string "):
            decoded(reader, [b""], [wide], [0], way=evolution(ADD_NEW_COLUMNS, lambda wide=wide: wide))  # type: ignore[misc]
        payload = avro(wide, {"a": 1, "s": {"x": 1, "b": None}}) if kind is SchemaType.AVRO else b'{"a":1}'
        way = evolution(ADD_NEW_COLUMNS, lambda wide=wide: wide)  # type: ignore[misc]
        assert decoded(reader, [payload], [wide], [0], ["a"], way=way)[0] == [(1,)]


def test_both_halves_of_a_key_value_are_rescued() -> None:
    # covers SCHEMA-21
    key, value = record(A), record(A, S)
    properties = {"key.schema.type": "JSON", "value.schema.type": "JSON", "kv.encoding.type": "INLINE"}
    both = Schema(SchemaType.KEY_VALUE, join_key_and_value(key.schema.data, value.schema.data), properties)
    payloads: list[bytes | None] = [
        join_key_and_value(one, other)
        for one, other in [
            (b'{"a":1}', b'{"a":2}'),
            (b'{"a":1,"k":1}', b'{"a":2}'),
            (b'{"a":1,"k":1}', b'{"a":2,"v":[]}'),
        ]
    ]
    rows, texts, _ = decoded(Definition(both), [*payloads, None])
    assert rows[0] == ({"a": 1}, {"a": 2, "s": None})
    assert texts == [None, '{"key":{"k":1}}', '{"key":{"k":1},"value":{"v":[]}}', None]


def native(*fields: tuple[str, int, int], inner: Sequence[tuple[str, int, int]] = ()) -> Definition:
    """The schema of a message `R` with fields of a name, a number and a type, and with `r` and `rs` of messages."""
    file = FileDescriptorProto(name="r.proto", syntax="proto3")
    nested = file.message_type.add(name="N")
    for name, number, kind in inner:
        nested.field.add(name=name, number=number, type=kind, label=Field.LABEL_OPTIONAL)  # type: ignore[arg-type]
    message = file.message_type.add(name="R")
    for name, number, kind in fields:
        message.field.add(name=name, number=number, type=kind, label=Field.LABEL_OPTIONAL)  # type: ignore[arg-type]
    of_message = {"type": Field.TYPE_MESSAGE, "type_name": ".N"}
    message.field.add(name="r", number=90, label=Field.LABEL_OPTIONAL, **of_message)  # type: ignore[arg-type]
    message.field.add(name="rs", number=91, label=Field.LABEL_REPEATED, **of_message)  # type: ignore[arg-type]
    text = {
        "fileDescriptorSet": base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode(),
        "rootMessageTypeName": "R",
        "rootFileDescriptorName": "r.proto",
    }
    return Definition(Schema(SchemaType.PROTOBUF_NATIVE, json.dumps(text).encode()), "R")


INT32, STRING, BYTES = (
    Field.TYPE_INT32,
    Field.TYPE_STRING,
    Field.TYPE_BYTES,
)


def test_protobuf_fields_are_rescued_by_name_and_by_number() -> None:
    # covers SCHEMA-20, SCHEMA-21
    reader = native(("a", 1, INT32), ("c", 3, INT32), inner=[("x", 1, INT32)])
    writer = native(("a", 1, INT32), ("b", 2, STRING), ("c", 3, STRING), inner=[("x", 1, INT32), ("y", 2, BYTES)])
    make = GetMessageClass(root_message(writer))
    full = make(a=1, b="é", c="text", r={"x": 1, "y": b"\0"}, rs=[{"x": 1}, {"x": 2, "y": b"\1"}]).SerializeToString()
    plain = make(a=2, rs=[{"x": 3}]).SerializeToString()
    rows, texts, errors = decoded(reader, [full, plain, None, b"\xff"], [writer], [0, 0, 0, 0])
    assert rows[:2] == [(1, 0, {"x": 1}, [{"x": 1}, {"x": 2}]), (2, 0, None, [{"x": 3}])]
    assert texts == ['{"b":"é","c":"text","r":{"y":"AA=="},"rs":[null,{"y":"AQ=="}]}', None, None, None]
    assert list(errors) == [3]
    # a message without version: the numbers are what is known
    assert decoded(reader, [full])[1] == ['{"#2":"w6k=","#3":"dGV4dA==","r":{"#2":"AA=="},"rs":[null,{"#2":"AQ=="}]}']
    assert decoded(reader, [full], names=["a"])[1] == ['{"#2":"w6k=","#3":"dGV4dA=="}']
    with pytest.raises(NewColumnsError, match=r"lacks: b string, r\.y binary, rs\[\]\.y binary "):
        decoded(reader, [full], [writer], [0], way=evolution(ADD_NEW_COLUMNS, lambda: writer))
    with pytest.raises(NewColumnsError, match=r"has: #2 binary, #3 binary, r\.#2 binary, rs\[\]\.#2 binary "):
        decoded(reader, [full], way=evolution(FAIL_ON_NEW_COLUMNS))


def test_a_text_says_which_message_it_is_of_and_keeps_the_fields_of_that_name() -> None:
    # covers SCHEMA-21
    texts = pa.array(['{"q":1}', None, '{"_topic":1,"r":"_message_id"}', "{}"])
    versions = pa.array([3, 3, -1, 0])
    assert with_places(texts, "t", "id-{}".format, versions).to_pylist() == [
        '{"q":1,"_topic":"t","_message_id":"id-0","_schema_version":3}',
        None,
        '{"_topic":1,"r":"_message_id","_message_id":"id-2"}',
        '{"_topic":"t","_message_id":"id-3","_schema_version":0}',
    ]


@pytest.mark.parametrize("kind", [SchemaType.STRING, SchemaType.BYTES, None])
def test_a_schema_without_fields_is_refused_by_name(kind: SchemaType | None) -> None:
    # covers SCHEMA-20
    definition = None if kind is None else Definition(Schema(kind))
    for mode, name in (
        (DecodeMode(schema_evolution=RESCUE, rescued_data="r"), "schemaEvolutionMode"),
        (DecodeMode(schema_evolution=FAIL_ON_NEW_COLUMNS), "schemaEvolutionMode"),
        (DecodeMode(rescued_data="r"), "rescuedDataColumn"),
    ):
        with pytest.raises(SchemaError, match=f"option {name} needs topics whose schema has fields"):
            check_has_fields(definition, mode)
    check_has_fields(definition, DecodeMode())
    assert Evolution.of(DecodeMode(), "t", lambda: None) is None
