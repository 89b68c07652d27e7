"""Payloads of JSON schemas: plain JSON objects, whose fields have the types of an Avro definition (SCHEMA-12).

A kernel reads columns of payloads (`unusual_json`). What it does not take is read by Python, row by row: slower, and
more lenient about how clients write dates (numbers, ISO texts, lists), bytes (base64) and numbers that are none of JSON
(NaN). What does not fit its type is an error (SCHEMA-13: `json_values`). Few payloads, and all without numba, go to
pyarrow's JSON reader at once where it has all types, else to Python.
"""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.decode_mode import BASE64
from spark_pulsar.connector.schemas.decoding.evolution import Evolution, added_columns
from spark_pulsar.connector.schemas.decoding.json_columns import read_columns
from spark_pulsar.connector.schemas.decoding.json_program import is_by_column
from spark_pulsar.connector.schemas.decoding.json_rescuing import Rescuing, salvage_of
from spark_pulsar.connector.schemas.decoding.json_times import numbers_of_texts, with_text_times
from spark_pulsar.connector.schemas.decoding.json_values import Clients, json_text, shown, value_of
from spark_pulsar.connector.schemas.decoding.unusual_json import LEAST_ROWS, ApartDecoder
from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload
from spark_pulsar.connector.schemas.payloads.flat_payloads import flat
from spark_pulsar.connector.schemas.payloads.record_types import RecordType
from spark_pulsar.connector.schemas.payloads.rescued import rescued_type, with_rescued
from spark_pulsar.connector.schemas.types.arrow_types import arrow_type, with_odd_as
from spark_pulsar.wire.columns.kernels.compiler import COMPILED

if TYPE_CHECKING:
    from spark_pulsar.connector.schemas.definition import Definition
    from spark_pulsar.model.avro import AvroType

_OPEN, _CLOSE, _NEWLINE, _SPACE = b"{}\n "
_MARK: Final = np.frombuffer(b"\xef\xbb\xbf", np.uint8)
"""Byte order mark of UTF-8, with which some clients begin a text."""
_SECOND_MARK: Final = "\ufeff"
"""Beginning of a text that is no JSON, for which only `json.loads` has an error."""
_JSON: Final = json.JSONDecoder(parse_float=decimal.Decimal)
_MOST_BLANKS: Final = 2
"""Line breaks and blanks behind a value that are skipped without reading it row by row."""
_FAST_KINDS: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "string", "enum"})


class JsonDecoder:
    """Payloads of one writer's schema, which names the units of dates and times. Fields that a payload lacks are
    null, fields that are not wanted are left out; with an evolution those that the schema lacks are rescued."""

    def __init__(
        self,
        reader: Definition,
        writer: Definition,
        wanted: Any,
        json_bytes: str = BASE64,
        evolution: Evolution | None = None,
    ) -> None:
        avro, written = reader.avro(), _written(writer)
        self._record = RecordType(avro, wanted, written, is_text=True)
        self._exact = RecordType(avro, wanted, written, is_text=True, is_exact=True)
        self.type = wanted if evolution is None else rescued_type(wanted)
        self._is_fast = _is_fast(self._record) and bool(self._record.members)
        self._schemas = [pa.schema(list(self._record.physical))]
        """Types of the fields for pyarrow's reader: with times as numbers, and as texts; what fitted last is first."""
        if self._is_fast and (text_type := with_text_times(self._exact)) != self._exact.physical:
            self._schemas.append(pa.schema(list(text_type)))
        self._with_numbers = self._schemas[0]
        self._evolution, self._rescuing = evolution, Rescuing(keeps=evolution is not None and evolution.rescues)
        make: Callable[..., Any] = value_of
        if evolution is not None:
            make = partial(salvage_of, rescuing=self._rescuing)
            if evolution.refuses_undeclared:
                self._rescuing.declared = frozenset(added_columns(writer, reader))
        self._unwanted = [] if evolution is None else self._unwanted_fields(avro, written)
        self._value = make(self._exact, "", Clients(json_bytes))
        members = self._exact.members.items()
        values = {name: make(member, f".{name}", Clients(json_bytes)) for name, member in members}
        of_columns = {name for name, member in self._record.members.items() if is_by_column(member)}
        rescues = evolution is not None
        self._apart = ApartDecoder(
            self._record, self._exact, of_columns, self._one_by_one, values, json_bytes, rescues=rescues
        )

    def _unwanted_fields(self, avro: AvroType, written: list[AvroType]) -> list[Any]:
        """Returns the declared fields that are not wanted, which the reader of columns must accept; where it cannot, no
        payloads are read at once."""
        declared = with_odd_as(arrow_type(avro, is_json=True), pa.string())
        wanted = {field.name: field.type for field in self._record.arrow}
        record = RecordType(avro, declared, written, is_text=True)
        others = [member for name, member in record.members.items() if name not in wanted]
        is_part = any(field.type != wanted.get(field.name, field.type) for field in declared)
        self._is_fast = self._is_fast and not is_part and all(_is_fast(other) for other in others)
        return [pa.field(name, member.physical) for name, member in record.members.items() if name not in wanted]

    def decode(self, payloads: Any) -> Any:
        """Returns the payloads as an array of `type`. Raises NewColumnsError for fields that nothing declares, where
        they end the query."""
        is_apart = self._record.kind == "record" and len(payloads) >= LEAST_ROWS and COMPILED
        if is_apart:
            try:
                return self._apart.decode(payloads)
            finally:
                self._refuse_undeclared()
        if self._is_fast and (lines := _lines(payloads)) is not None:
            for schema in self._schemas:
                read = self._at_once(lines, len(payloads), schema)
                if read is not None:
                    self._schemas.sort(key=lambda candidate: candidate is not schema)
                    return read
        return self._one_by_one(payloads)

    def _at_once(self, lines: bytes, rows: int, schema: Any) -> Any:
        """Returns lines by pyarrow's reader, as an array of `type`; None when it does not take them all.

        Rows cannot shift: a line that begins with a brace and ends with one is at least one object, never a part of
        one, so as many objects as lines means one object a line. A line break inside of a text is an error to the
        reader; between tokens it is none, and a payload may have as many as it wants.
        """
        if self._evolution is None:
            columns = read_columns(lines, rows, schema)
        else:
            columns = read_columns(lines, rows, pa.schema([*schema, *self._unwanted]), is_closed=True)
        if columns is None:
            return None
        array = pa.StructArray.from_arrays(columns[: len(schema)], fields=list(schema))
        if schema is self._with_numbers:
            return self._with_texts(self._record.to_spark(array))
        numbers = numbers_of_texts(array, self._exact)
        return None if numbers is None else self._with_texts(self._exact.to_spark(numbers))

    def _with_texts(self, values: Any, rescued: list[Any] | None = None) -> Any:
        """Returns values, with the texts of the rescued members where the read has an evolution."""
        if self._evolution is None:
            return values
        texts = rescued and [None if rest is None else json_text(rest) for rest in rescued]
        return with_rescued(values, texts)

    def _refuse_undeclared(self) -> None:
        if self._evolution is not None:
            self._evolution.refuse_undeclared(self._rescuing.undeclared)

    def _one_by_one(self, payloads: Any) -> Any:
        rows: list[Any] = []
        rescued: list[Any] | None = None
        errors: dict[int, str] = {}
        for row, payload in enumerate(payloads.to_pylist()):
            value: Any = None
            try:
                text = payload.decode("utf-8-sig")
                loaded = json.loads(text) if text.startswith(_SECOND_MARK) else _JSON.decode(text)
                if not isinstance(loaded, dict):
                    raise ValueError(f"{shown(loaded)} is no object")
                value = self._value(loaded)
            except (ValueError, RecursionError, ArithmeticError) as error:
                errors[row] = f"it is no JSON of its schema: {error}"
            rows.append(value)
        self._refuse_undeclared()
        if self._evolution is not None:
            rows, rescued = [pair and pair[0] for pair in rows], [pair and pair[1] for pair in rows]
        try:
            values = self._exact.to_spark(pa.array(rows, self._exact.physical))
        except (UndecodablePayload, pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeError) as error:
            if errors:
                raise UndecodablePayload.of(errors) from error
            if isinstance(error, UndecodablePayload):
                raise
            raise UndecodablePayload(f"it does not fit Spark's types: {error}") from error
        if errors:
            raise UndecodablePayload.of(errors, self._with_texts(values, rescued))
        return self._with_texts(values, rescued)


def _written(writer: Definition) -> list[AvroType]:
    """Returns the type of a writer; none where its definition is of another form, which has no logical types."""
    try:
        return [writer.avro()]
    except SchemaError:
        return []


def _lines(payloads: Any) -> bytes | None:
    """Returns the payloads, a line break behind each; None unless each begins and ends with a brace, but for a byte
    order mark before and blanks behind it."""
    octets, offsets = flat(payloads)
    starts, ends = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    if not len(starts) or not (ends - starts >= 2).all():
        return None
    body, first = octets[starts[0] : ends[-1]], starts[0]
    begins = starts - first
    marked = (octets[starts] == _MARK[0]) & (ends - starts >= len(_MARK) + 2)
    if marked.any():
        body = body.copy()
        places = begins[marked][:, None] + np.arange(len(_MARK))
        if not (body[places] == _MARK).all():
            return None
        body[places] = _SPACE
        begins = begins + marked * len(_MARK)
    lasts = ends - first - 1
    for _ in range(_MOST_BLANKS):
        lasts = lasts - (body[lasts] <= _SPACE)
    if not ((lasts > begins).all() and (body[begins] == _OPEN).all() and (body[lasts] == _CLOSE).all()):
        return None
    return np.insert(body, ends - first, _NEWLINE).tobytes()


def _is_fast(record: RecordType) -> bool:
    """Returns whether pyarrow's JSON reader has all the types."""
    if record.is_union or record.kind in ("map", "opaque") or record.logical == "decimal":
        return False
    if record.kind == "record":
        return all(_is_fast(member) for member in record.members.values())
    if record.kind == "array":
        assert record.items is not None
        return _is_fast(record.items)
    return record.kind in _FAST_KINDS
