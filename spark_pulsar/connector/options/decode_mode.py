"""Modes of a read: the way of messages that do not decode by the schema of their topic, and of fields that clients or
Spark have in more than one way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FAILFAST: Final = "FAILFAST"
PERMISSIVE: Final = "PERMISSIVE"
DEADLETTER: Final = "DEADLETTER"
MODES: Final = (FAILFAST, PERMISSIVE, DEADLETTER)

CORRUPT_RECORD: Final = "_corrupt_record"
"""Spark's own name for the column."""

ERROR_COLUMN: Final = "__error"

BASE64: Final = "BASE64"
TEXT: Final = "TEXT"
JSON_BYTES: Final = (BASE64, TEXT)
NUMBER: Final = "NUMBER"
JSON_TIMES: Final = (TEXT, NUMBER)

FAIL: Final = "FAIL"
JSON: Final = "JSON"
BINARY: Final = "BINARY"
UNSUPPORTED_FIELDS: Final = (FAIL, JSON, BINARY)


@dataclass(frozen=True, slots=True)
class DecodeMode:
    """FAILFAST fails the task, PERMISSIVE leaves nulls and two columns that say why, DEADLETTER publishes the message
    to another topic and leaves the row out."""

    mode: str = FAILFAST
    corrupt_record: str = CORRUPT_RECORD
    dead_letter_topic: str | None = None
    json_bytes: str = BASE64
    """Form of bytes in JSON: base64, or text in UTF-8."""
    unsupported_fields: str = FAIL
    """Columns of a read without schema for fields that Spark has no type for: an error, JSON text or binary."""

    def columns(self) -> tuple[tuple[str, str], ...]:
        """Columns that the mode adds: name and Spark type."""
        if self.mode != PERMISSIVE:
            return ()
        return (self.corrupt_record, "binary"), (ERROR_COLUMN, "string")
