"""Modes of a read: the way of messages that do not decode by the schema of their topic."""

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


@dataclass(frozen=True, slots=True)
class DecodeMode:
    """FAILFAST fails the task, PERMISSIVE leaves nulls and two columns that say why, DEADLETTER publishes the message
    to another topic and leaves the row out."""

    mode: str = FAILFAST
    corrupt_record: str = CORRUPT_RECORD
    dead_letter_topic: str | None = None

    def columns(self) -> tuple[tuple[str, str, str], ...]:
        """Columns that the mode adds: name, Spark type, meaning."""
        if self.mode != PERMISSIVE:
            return ()
        return (
            (self.corrupt_record, "binary", "Payload of a message that does not decode; null for all others."),
            (ERROR_COLUMN, "string", "Reason why a message does not decode; null for all others."),
        )
