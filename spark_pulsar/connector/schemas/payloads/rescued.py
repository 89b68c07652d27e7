"""Rescued data beside decoded payloads: what does not fit the schema of a read, as the text of a JSON object
(SCHEMA-21), by `schemaEvolutionMode` (SCHEMA-20).

A decoder that rescues makes a struct of the value and that text, so that both stay together wherever rows are selected,
sorted and joined.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from spark_pulsar.connector.schemas.payloads.decoder import Decoder, UndecodablePayload

_VALUE, _TEXT = "value", "rescued"
_ROW_PARTS: Final = ("_topic", "_message_id", "_schema_version")
"""Names behind the fields of a rescued text that say which message it is of."""


def rescued_type(kind: Any) -> Any:
    """Returns the type of values with their rescued texts."""
    return pa.struct([pa.field(_VALUE, kind), pa.field(_TEXT, pa.string())])


def with_rescued(values: Any, texts: Any = None) -> Any:
    """Returns values with their rescued texts, an array or a list; without them nothing was rescued."""
    if texts is None:
        texts = pa.nulls(len(values), pa.string())
    elif isinstance(texts, list):
        texts = pa.array(texts, pa.string())
    return pa.StructArray.from_arrays([values, texts], fields=list(rescued_type(values.type)))


class NothingRescued:
    """Decoder of payloads of which all fields have a place, with texts that are null."""

    def __init__(self, decoder: Decoder) -> None:
        self.type = rescued_type(decoder.type)
        self._decoder = decoder

    def decode(self, payloads: Any) -> Any:
        """Returns the payloads as an array of `type`."""
        try:
            return with_rescued(self._decoder.decode(payloads))
        except UndecodablePayload as error:
            raise error.with_partial(with_rescued) from None


def joined_texts(names: Sequence[str], columns: Sequence[Any]) -> Any:
    """Returns one text for each row of several columns: an object of those that have one, by their names."""
    if all(column.null_count == len(column) for column in columns):
        return columns[0]
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return pa.array([_object(names, texts) for texts in rows], pa.string())


def _object(names: Sequence[str], texts: Sequence[str | None]) -> str | None:
    parts = [f"{json.dumps(name)}:{text}" for name, text in zip(names, texts, strict=True) if text is not None]
    return f"{{{','.join(parts)}}}" if parts else None


def with_places(texts: Any, topic: str, ids: Any, versions: Any) -> Any:
    """Returns rescued texts with the topic, message id and schema version (-1: none) of their rows behind the fields.

    `ids` gives the text of the id of a row. A field of the message with the name of one of these stays as it is.
    """
    if texts.null_count == len(texts):
        return texts
    json_texts: list[str | None] = texts.to_pylist()
    for row, text in enumerate(json_texts):
        if text is not None:
            place = dict(zip(_ROW_PARTS, (topic, ids(row), versions[row].as_py()), strict=True))
            if place["_schema_version"] < 0:
                del place["_schema_version"]
            if '"_' in text:
                place = {name: value for name, value in place.items() if name not in json.loads(text)}
            parts = [text[1:-1], json.dumps(place, ensure_ascii=False, separators=(",", ":"))[1:-1]]
            json_texts[row] = f"{{{','.join(filter(None, parts))}}}"
    return pa.array(json_texts, pa.string())
