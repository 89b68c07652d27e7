"""Decoding of messages in a task: payloads of many schema versions become the columns of the schema of the read."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.schemas.decoding.avro.decoder import AvroDecoder
from spark_pulsar.connector.schemas.decoding.json_payloads import JsonDecoder
from spark_pulsar.connector.schemas.decoding.key_value_payloads import split_inline
from spark_pulsar.connector.schemas.decoding.primitive_payloads import primitive_decoder
from spark_pulsar.connector.schemas.definition import Definition, KeyValueEncoding
from spark_pulsar.connector.schemas.payloads.decoder import Decoder, UndecodablePayload, decode_rows
from spark_pulsar.connector.schemas.types.columns import KEY, VALUE, is_record
from spark_pulsar.model.schemas import SchemaType

Writers = Callable[[int], Definition | None]
"""Returns the schema of the topic at a version, None when there is none."""

_MOST_DECODERS: Final = 100


@dataclass(slots=True)
class Decoded:
    """Columns of one batch of messages, by name, and the reasons of rows that did not decode: null in all of them."""

    columns: dict[str, Any]
    errors: dict[int, str] = field(default_factory=dict)


class MessageDecoder:
    """Decodes the messages of one topic: `reader` is the schema of the read, `wanted` the columns of it to make.

    A message that carries no version was written with the schema of the read, as far as anybody knows.
    """

    def __init__(self, reader: Definition, wanted: Any, writers: Writers) -> None:
        self._reader = reader
        self._wanted = wanted
        self._writers = writers
        self._is_record = is_record(reader)
        self._encoding = reader.key_value()[2] if reader.type is SchemaType.KEY_VALUE else None
        self._decoders: dict[int, dict[str, Decoder]] = {}

    def decode(self, payloads: Any, keys: Any, versions: Any) -> Decoded:
        """Returns the wanted columns of messages. `payloads` and `keys` are binary arrays, `versions` int64 (-1: none);
        keys are looked at for separated KEY_VALUE alone."""
        errors: dict[int, str] = {}
        runs: list[dict[str, Any]] = []
        numbers = versions.to_numpy()
        bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        for start, end in itertools.pairwise(bounds):
            if start < end:
                key = None if keys is None else keys.slice(start, end - start)
                parts = self._parts(payloads.slice(start, end - start), key, errors, start)
                decoders = self._of_version(int(numbers[start]))
                runs.append({name: decode_rows(decoders[name], parts[name], errors, start) for name in decoders})
        columns = {name: _joined([run[name] for run in runs]) for name in (runs[0] if runs else {})}
        if self._is_record and columns:
            record = columns[VALUE]
            return Decoded({each.name: record_field(record, i) for i, each in enumerate(self._wanted)}, errors)
        if errors and self._encoding is not None:
            columns = {name: _without(column, errors) for name, column in columns.items()}
        return Decoded(columns, errors)

    def _parts(self, payloads: Any, keys: Any, errors: dict[int, str], first: int) -> dict[str, Any]:
        """Returns the bytes of each column that is decoded by itself."""
        if self._encoding is KeyValueEncoding.INLINE:
            key, value = split_inline(payloads, errors, first)
            return {KEY: key, VALUE: value}
        return {KEY: keys, VALUE: payloads}

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
        writer = reader if version < 0 else self._writers(version)
        if self._encoding is None:
            wanted = pa.struct(list(self._wanted)) if self._is_record else self._wanted.field(VALUE).type
            return {VALUE: decoder_of(reader, writer, wanted, version)}
        if reason := self._unlike(writer, version):
            return {each.name: Refusing(each.type, reason) for each in self._wanted}
        read, written = _halves(reader), _halves(writer)
        return {each.name: decoder_of(read[each.name], written[each.name], each.type, version) for each in self._wanted}

    def _unlike(self, writer: Definition | None, version: int) -> str:
        """Tells why a KEY_VALUE schema cannot be that of payloads which are split as the reader's; else empty."""
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


def decoder_of(reader: Definition, writer: Definition | None, wanted: Any, version: int) -> Decoder:
    """Returns the decoder of payloads that were written with `writer`, for the reader's schema and the type `wanted`.

    A writer's schema that is missing, of another type or not to be resolved makes one that refuses every payload.
    """
    if writer is None:
        return Refusing(wanted, f"the schema version {version} that it carries is not in the registry")
    if writer.type is not reader.type:
        told = f"it was written with {writer.type.name} (schema version {version}), not {reader.type.name}"
        return Refusing(wanted, told)
    if reader.type is SchemaType.PROTOBUF_NATIVE:
        from spark_pulsar.connector.schemas.decoding.protobuf_payloads import ProtobufDecoder

        return ProtobufDecoder(reader, wanted)
    if reader.type not in (SchemaType.AVRO, SchemaType.JSON):
        return primitive_decoder(reader.type)
    try:
        return (AvroDecoder if reader.type is SchemaType.AVRO else JsonDecoder)(reader, writer, wanted)
    except SchemaError as error:
        return Refusing(wanted, f"{error} (schema version {version})" if version >= 0 else str(error))


class Refusing:
    """Decoder of payloads that cannot be decoded, each for the reason given."""

    def __init__(self, kind: Any, reason: str) -> None:
        self.type = kind
        self._reason = reason

    def decode(self, payloads: Any) -> Any:
        """Raises UndecodablePayload for the first payload."""
        raise UndecodablePayload(self._reason, 0)


def record_field(record: Any, i: int) -> Any:
    """Returns a field of a struct array, null where the struct is."""
    return record.flatten()[i] if record.null_count else record.field(i)


def _without(column: Any, errors: dict[int, str]) -> Any:
    """Returns a column that is null in rows with errors."""
    wrong = np.zeros(len(column), np.bool_)
    wrong[list(errors)] = True
    return column.take(pa.array(np.arange(len(column)), mask=wrong))


def _joined(arrays: list[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
