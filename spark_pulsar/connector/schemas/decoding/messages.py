"""Decoding of messages in a task: payloads of many schema versions become the columns of the schema of the read
(SCHEMA-17). Those that do not decode are found by `payloads.decoder` (SCHEMA-18)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.decode_mode import BASE64
from spark_pulsar.connector.schemas.decoding.avro.decoder import AvroDecoder
from spark_pulsar.connector.schemas.decoding.avro.rescuing import avro_decoder
from spark_pulsar.connector.schemas.decoding.evolution import Evolution
from spark_pulsar.connector.schemas.decoding.json_payloads import JsonDecoder
from spark_pulsar.connector.schemas.decoding.key_value_payloads import split_inline
from spark_pulsar.connector.schemas.decoding.primitive_payloads import primitive_decoder
from spark_pulsar.connector.schemas.definition import Definition, KeyValueEncoding
from spark_pulsar.connector.schemas.payloads.decoder import Decoder, UndecodablePayload, decode_rows
from spark_pulsar.connector.schemas.payloads.flat_payloads import without
from spark_pulsar.connector.schemas.payloads.reasons import Reasons
from spark_pulsar.connector.schemas.payloads.rescued import NothingRescued, joined_texts
from spark_pulsar.connector.schemas.types.columns import KEY, VALUE, is_record
from spark_pulsar.connector.schemas.united_definition import primitive_of_both
from spark_pulsar.model.schemas import SchemaType

Writers = Callable[[int], Definition | None]
"""Returns the schema of the topic at a version, None when there is none."""

_MOST_DECODERS: Final = 100


@dataclass(slots=True)
class Decoded:
    """Columns of one batch of messages, by name, and the reasons of rows that did not decode: null in all of them."""

    columns: dict[str, Any]
    errors: Reasons = field(default_factory=Reasons)
    rescued: Any = None
    """Texts of what the columns have no place for; None where the read does not rescue."""


class MessageDecoder:
    """Decodes the messages of one topic: `reader` is the schema of the read, `wanted` the columns of it to make.

    A message that carries no version counts as written with the schema of the read, and with several schemas with the
    newest of its topic.
    """

    def __init__(
        self,
        reader: Definition,
        wanted: Any,
        writers: Writers,
        json_bytes: str = BASE64,
        evolution: Evolution | None = None,
    ) -> None:
        """With an `evolution` there is rescued data, too, and new columns may end the read."""
        self._evolution = evolution
        self._reader = reader
        self._wanted = wanted
        self._writers = writers
        self._json_bytes = json_bytes
        self._is_record = is_record(reader)
        self._encoding = reader.key_value()[2] if reader.type is SchemaType.KEY_VALUE else None
        self._decoders: dict[int, dict[str, Decoder]] = {}

    def decode(self, payloads: Any, keys: Any, versions: Any) -> Decoded:
        """Returns the wanted columns of messages. `payloads` and `keys` are binary arrays, `versions` int64 (-1: none);
        keys matter for separated KEY_VALUE alone."""
        errors = Reasons()
        columns: dict[str, Any] = {}
        parts: list[dict[str, Any]] = []
        groups = list(_by_version(versions.to_numpy()))
        for version, rows in groups:
            part, reasons = self._of_one_version(version, rows, payloads, keys)
            parts.append(part)
            errors = errors.and_of(reasons, rows)
        if parts:
            columns = {name: _joined([part[name] for part in parts]) for name in parts[0]}
        if len(groups) > 1:
            places = np.empty(len(payloads), np.int64)
            places[np.concatenate([rows for _, rows in groups])] = np.arange(len(payloads))
            columns = {name: column.take(pa.array(places)) for name, column in columns.items()}
        if errors and self._encoding is not None:
            wrong = errors.are_of(len(payloads))
            columns = {name: without(column, wrong) for name, column in columns.items()}
        rescued = None
        if self._evolution is not None and columns:
            texts = {name: record_field(column, 1) for name, column in columns.items()}
            columns = {name: record_field(column, 0) for name, column in columns.items()}
            rescued = texts[VALUE] if self._encoding is None else joined_texts(list(texts), list(texts.values()))
        if self._is_record and columns:
            record = columns[VALUE]
            columns = {column.name: record_field(record, i) for i, column in enumerate(self._wanted)}
        return Decoded(columns, errors, rescued)

    def _of_one_version(self, version: int, rows: Any, payloads: Any, keys: Any) -> tuple[dict[str, Any], Reasons]:
        """Decodes the rows of one version, of all where `rows` is None: each column has them in their order."""
        if rows is not None:
            places = pa.array(rows)
            payloads, keys = payloads.take(places), None if keys is None else keys.take(places)
        decoders = self._of_version(version)
        encoded, errors = self._encoded_columns(payloads, keys)
        columns = {}
        for name, decoder in decoders.items():
            columns[name], reasons = decode_rows(decoder, encoded[name])
            errors = errors.and_of(reasons)
        return columns, errors

    def _encoded_columns(self, payloads: Any, keys: Any) -> tuple[dict[str, Any], Reasons]:
        """Returns the bytes of each column that is decoded by itself, and the reasons of rows that have none."""
        if self._encoding is KeyValueEncoding.INLINE:
            key, value, reasons = split_inline(payloads)
            return {KEY: key, VALUE: value}, reasons
        return {KEY: keys, VALUE: payloads}, Reasons()

    def _of_version(self, version: int) -> dict[str, Decoder]:
        known = self._decoders.get(version)
        if known is None:
            if len(self._decoders) >= _MOST_DECODERS:
                self._decoders.clear()
            known = self._decoders[version] = self._make(version)
        return known

    def _make(self, version: int) -> dict[str, Decoder]:
        reader = self._reader
        # The reader's version says nothing here: this topic may have been made again, or be another of several.
        writer = reader if version < 0 and not reader.is_of_several else self._writers(version)
        if self._evolution is not None:
            self._evolution.check_version(reader, writer, self._wanted)
        if self._encoding is None:
            wanted = pa.struct(list(self._wanted)) if self._is_record else self._wanted.field(VALUE).type
            return {VALUE: self._decoder(reader, writer, wanted, version)}
        if reason := self._unlike(writer, version):
            return {column.name: self._with_texts(Refusing(column.type, reason)) for column in self._wanted}
        read, written = _halves(reader), _halves(writer)
        return {
            column.name: self._decoder(read[column.name], written[column.name], column.type, version)
            for column in self._wanted
        }

    def _decoder(self, reader: Definition, writer: Definition | None, wanted: Any, version: int) -> Decoder:
        made = decoder_of(reader, writer, wanted, version, self._json_bytes, self._evolution)
        return self._with_texts(made) if made.type == wanted else made

    def _with_texts(self, decoder: Decoder) -> Decoder:
        """Returns a decoder that rescues nothing as one of a read that may."""
        return decoder if self._evolution is None else NothingRescued(decoder)

    def _unlike(self, writer: Definition | None, version: int) -> str:
        """Returns why a KEY_VALUE schema cannot be that of payloads which are split as the reader's; else empty."""
        if writer is None or writer.type is not SchemaType.KEY_VALUE:
            return ""
        try:
            encoding = writer.key_value()[2]
        except SchemaError as error:
            return str(error)
        if encoding is self._encoding:
            return ""
        return f"it was written {encoding.value} (schema version {version}), not {self._reader.key_value()[2].value}"


def _halves(definition: Definition | None) -> dict[str, Any]:
    if definition is None or definition.type is not SchemaType.KEY_VALUE:
        return {KEY: definition, VALUE: definition}
    key, value, _ = definition.key_value()
    return {KEY: key, VALUE: value}


def decoder_of(
    reader: Definition,
    writer: Definition | None,
    wanted: Any,
    version: int,
    json_bytes: str = BASE64,
    evolution: Evolution | None = None,
) -> Decoder:
    """Returns the decoder of payloads that were written with `writer`, for the reader's schema and the type `wanted`;
    with an evolution it may be one of that type with rescued texts.

    A writer's schema that is missing, of another type or not to be resolved makes one that refuses every payload.
    """
    if writer is None and version < 0:
        return Refusing(wanted, "it carries no schema version, and its topic has no schema")
    if writer is None:
        return Refusing(wanted, f"the schema version {version} that it carries is not in the registry")
    if writer.type is not reader.type and primitive_of_both(writer.type, reader.type) is reader.type:
        return Casting(primitive_decoder(writer.type), wanted)
    if writer.type is not reader.type:
        reason = f"it was written with {writer.type.name} (schema version {version}), not {reader.type.name}"
        return Refusing(wanted, reason)
    if reader.type is SchemaType.PROTOBUF_NATIVE:
        from spark_pulsar.connector.schemas.decoding.protobuf_payloads import ProtobufDecoder

        if evolution is not None:
            from spark_pulsar.connector.schemas.decoding.protobuf_rescuing import ProtobufRescuingDecoder

            return ProtobufRescuingDecoder(reader, writer, wanted, evolution)
        return ProtobufDecoder(reader, wanted)
    if reader.type not in (SchemaType.AVRO, SchemaType.JSON):
        return primitive_decoder(reader.type)
    try:
        if reader.type is SchemaType.AVRO:
            if evolution is not None and evolution.rescues:
                return avro_decoder(reader, writer, wanted)
            return AvroDecoder(reader, writer, wanted)
        return JsonDecoder(reader, writer, wanted, json_bytes, evolution)
    except SchemaError as error:
        read = f", read with version {int.from_bytes(reader.version, 'big')}" if reader.version else ""
        return Refusing(wanted, f"{error} (schema version {version}){read}" if version >= 0 else str(error))


class Casting:
    """Decoder of primitives whose column is a wider one, of another topic."""

    def __init__(self, decoder: Decoder, kind: Any) -> None:
        self.type = kind
        self._decoder = decoder

    def decode(self, payloads: Any) -> Any:
        """Returns the payloads as an array of `type`."""
        try:
            return self._decoder.decode(payloads).cast(self.type)
        except UndecodablePayload as error:
            raise error.with_partial(lambda values: values.cast(self.type)) from None


class Refusing:
    """Decoder of payloads that cannot be decoded, each for the reason given."""

    def __init__(self, kind: Any, reason: str) -> None:
        self.type = kind
        self._reason = reason

    def decode(self, payloads: Any) -> Any:
        """Raises UndecodablePayload for every payload."""
        reasons = Reasons.alike(np.arange(len(payloads)), [self._reason])
        raise UndecodablePayload.of(reasons, pa.nulls(len(payloads), self.type))


def record_field(record: Any, i: int) -> Any:
    """Returns a field of a struct array, null where the struct is."""
    return record.flatten()[i] if record.null_count else record.field(i)


def _by_version(versions: Any) -> Iterator[tuple[int, Any]]:
    """Yields each version with its rows in their order; with None where all rows have one."""
    if not len(versions):
        return
    if (versions == versions[0]).all():
        yield int(versions[0]), None
        return
    order = np.argsort(versions, kind="stable")
    cuts = np.flatnonzero(np.diff(versions[order])) + 1
    for rows in np.split(order, cuts):
        yield int(versions[rows[0]]), rows


def _joined(arrays: list[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
