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

NO_EVOLUTION: Final = "none"
RESCUE: Final = "rescue"
FAIL_ON_NEW_COLUMNS: Final = "failOnNewColumns"
ADD_NEW_COLUMNS: Final = "addNewColumns"
SCHEMA_EVOLUTION_MODES: Final = (NO_EVOLUTION, RESCUE, FAIL_ON_NEW_COLUMNS, ADD_NEW_COLUMNS)
"""Modes of Databricks' Auto Loader, by its names."""

RESCUED_DATA: Final = "_rescued_data"
"""Databricks' own name for the column."""

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

    schema_evolution: str = NO_EVOLUTION
    """Way of fields that the schema of the read does not have (SCHEMA-20)."""
    rescued_data: str | None = None
    """Column of what the schema of the read does not have; None: it is left out."""
    times_as_text: bool = False
    """True for a Spark that has no type for times of a day: they are text (SPARK-6)."""

    @property
    def minds_new_fields(self) -> bool:
        """Returns whether fields that the schema of the read does not have are more than left out."""
        return self.schema_evolution != NO_EVOLUTION or self.rescued_data is not None

    def columns(self) -> tuple[tuple[str, str], ...]:
        """Columns that the mode adds: name and Spark type."""
        rescued = () if self.rescued_data is None else ((self.rescued_data, "string"),)
        if self.mode != PERMISSIVE:
            return rescued
        return (self.corrupt_record, "binary"), (ERROR_COLUMN, "string"), *rescued
