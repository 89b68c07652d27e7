"""Plan of a read's decoding: fixed on the driver, pickled to every task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from spark_pulsar.connector.options.decode_mode import DEADLETTER, DecodeMode
from spark_pulsar.connector.schemas.definition import Definition, KeyValueEncoding
from spark_pulsar.model.schemas import SchemaType

SCHEMA_VERSION: Final = "__schemaVersion"
"""Column with the schema version of each message."""
NO_VERSION: Final = -1
"""Stands for a message that carries none."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """Decoding by the schema of the read: `wanted` are its requested columns, with their Arrow types. Without
    a schema nothing is decoded, and only the columns of the mode are added."""

    definition: Definition | None
    wanted: tuple[tuple[str, Any], ...]
    mode: DecodeMode

    @property
    def has_separate_keys(self) -> bool:
        """Returns whether keys of a KEY_VALUE schema are those of the messages."""
        if self.definition is None or self.definition.type is not SchemaType.KEY_VALUE:
            return False
        return self.definition.key_value()[2] is KeyValueEncoding.SEPARATED

    @property
    def publishes(self) -> bool:
        """Returns whether reading may publish messages: dead letters."""
        return self.mode.mode == DEADLETTER

    def needed(self, names: Iterable[str]) -> tuple[str, ...]:
        """Returns the columns that the kernels must make for a read of these columns."""
        made = {name for name, _ in self.wanted} | {name for name, _ in self.mode.columns()}
        columns = [name for name in names if name not in made]
        columns += ["value", SCHEMA_VERSION, "__messageId"]
        if self.has_separate_keys or self.publishes:
            columns.append("__key")
        if self.publishes:
            columns += ["__eventTime", "__messageProperties"]
        return tuple(dict.fromkeys(columns))
