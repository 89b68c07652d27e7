"""Values that are encoded already: `schemaType` AUTO_PRODUCE_BYTES, as the official clients' schema of that name
(SCHEMA-3).

The producer attaches with the newest schema of the topic, and each message names a version of it: the newest, or that
of the column `__schemaVersion`. Rows of one version stand together in the batches, since a batch has one version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.options import AUTO_PRODUCE_BYTES, Options

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_pulsar.model.schemas import Schema

SCHEMA_VERSION: Final = "__schemaVersion"
_VERSION_BYTES: Final = 8


def topic_schema(client: PulsarClient, options: Options, topic: str) -> Schema | None:
    """Returns the schema with which producers of encoded values attach; None where values have no schema."""
    if options.schema_type != AUTO_PRODUCE_BYTES:
        return None
    registered = client.schema_of(topic)
    return None if registered is None else registered.schema


@dataclass(frozen=True, slots=True)
class RowVersions:
    """Versions of the schema that rows name: `encoded` has those of `numbers`, one number for each row."""

    numbers: Any
    encoded: list[bytes]

    def of_row(self, row: int) -> bytes:
        """Returns the version of a row as metadata have it; empty for the topic's newest."""
        return self.encoded[int(self.numbers[row])]

    def cuts(self, rows: Any) -> Any:
        """Returns where batches of rows must begin, since a batch has one version."""
        import numpy as np

        numbers = self.numbers[rows]
        cuts = np.zeros(len(rows), np.uint8)
        cuts[1:] = numbers[1:] != numbers[:-1]
        return cuts


class KnownVersions:
    """Versions of one topic's schema that rows may name: each is requested once."""

    def __init__(self, client: PulsarClient, topic: str) -> None:
        self._client = client
        self._topic = topic
        self._known: dict[int, bytes] = {}

    def of_rows(self, table: pa.Table) -> RowVersions | None:
        """Returns the versions that the rows of a table name; None without such a column. Raises SchemaError."""
        import numpy as np
        import pyarrow as pa

        if SCHEMA_VERSION not in table.column_names:
            return None
        column = table.column(SCHEMA_VERSION).combine_chunks().dictionary_encode(null_encoding="encode")
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        numbers = column.indices.to_numpy().astype(np.int64)
        return RowVersions(numbers, [self.encoded(version) for version in column.dictionary.to_pylist()])

    def encoded(self, version: int | None) -> bytes:
        """Returns a version as metadata have it, empty for None. Raises SchemaError for one that the topic lacks."""
        if version is None:
            return b""
        if version not in self._known:
            data = version.to_bytes(_VERSION_BYTES, "big", signed=True)
            if version < 0 or self._client.schema_of(self._topic, data) is None:
                raise SchemaError(
                    f"{SCHEMA_VERSION} is {version}, and {self._topic} has no such version of a schema: register it "
                    "first (spark_pulsar.copy_schemas), or leave the column out"
                )
            self._known[version] = data
        return self._known[version]


def check_encoded(schema: Any, options: Options) -> None:
    """Checks that values are bytes, and that only encoded values name versions. Raises SchemaError."""
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    if options.schema_type != AUTO_PRODUCE_BYTES:
        if SCHEMA_VERSION in kinds:
            raise SchemaError(f"{SCHEMA_VERSION} can be written with schemaType {AUTO_PRODUCE_BYTES} only; drop it")
    elif kinds.get("value") != "binary":
        given = kinds.get("value", "not there")
        raise SchemaError(f"schemaType {AUTO_PRODUCE_BYTES} takes value as binary, encoded already; it is {given}")
