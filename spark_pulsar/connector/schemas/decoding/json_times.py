"""Times of JSON payloads that are ISO 8601 texts, by column: what the connector itself writes (SCHEMA-16), and Go and
JavaScript.

Texts of other forms, with more digits or an offset, are left to the reading row by row.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_pulsar.connector.schemas.payloads.record_types import RecordType

_DAY: Final = r"\d{4}-\d{2}-\d{2}T"
_CLOCK: Final = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?"
_FORMS: Final = {
    "timestamp-micros": f"^{_DAY}{_CLOCK}Z$",
    "local-timestamp-micros": f"^{_DAY}{_CLOCK}$",
    "time-micros": f"^{_CLOCK}$",
}


def with_text_times(record: RecordType) -> Any:
    """Returns the physical type of a record with text in place of its times and timestamps."""
    if record.members:
        return pa.struct([pa.field(name, with_text_times(member)) for name, member in record.members.items()])
    if record.items is not None:
        return pa.list_(with_text_times(record.items))
    return pa.string() if record.logical in _FORMS else record.physical


def numbers_of_texts(array: Any, record: RecordType) -> Any:
    """Returns an array of `with_text_times` as one of the record's physical type; None where a text has another
    form."""
    if record.members:
        parts = [numbers_of_texts(array.field(i), member) for i, member in enumerate(record.members.values())]
        if any(part is None for part in parts):
            return None
        return pa.StructArray.from_arrays(parts, fields=list(record.physical), mask=array.is_null())
    if record.items is not None:
        inner = numbers_of_texts(array.values, record.items)
        if inner is None:
            return None
        validity, offsets = array.buffers()[:2]
        return pa.Array.from_buffers(
            record.physical, len(array), [validity, offsets], array.null_count, array.offset, [inner]
        )
    return _numbers(array, record.logical) if record.logical in _FORMS else array


def _numbers(texts: Any, logical: str) -> Any:
    if pc.all(pc.match_substring_regex(texts, _FORMS[logical])).as_py() is False:
        return None
    if logical == "time-micros":
        texts = pc.binary_join_element_wise("1970-01-01T", texts, "")
    try:
        zone = "UTC" if logical == "timestamp-micros" else None
        return texts.cast(pa.timestamp("us", zone)).cast(pa.int64())
    except pa.ArrowInvalid:  # no day of the calendar
        return None
