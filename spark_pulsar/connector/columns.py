"""The tables of columns: what a read yields, what it yields on request, what a write takes (READ-3, READ-12)."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from spark_pulsar.connector.errors import SchemaError

MAP_TYPE: Final = "map<string,string>"
"""Type of properties."""


@dataclass(frozen=True, slots=True)
class Column:
    """One row of a column table: name, Spark types (the first is the default), meaning."""

    name: str
    types: tuple[str, ...]
    meaning: str


READ_COLUMNS: Final[tuple[Column, ...]] = (
    Column("value", ("binary", "string"), "Payload as it was sent, decompressed; null for a null value (tombstone)."),
    Column("__key", ("binary", "string"), "Partition key as bytes (a base64 key decoded); null without key."),
    Column("__topic", ("string",), "Full name of the topic partition."),
    Column("__messageId", ("binary",), "Message id as the official clients serialise it (`MessageId.deserialize`)."),
    Column("__publishTime", ("timestamp",), "When the producer sent the message."),
    Column("__eventTime", ("timestamp",), "Event time set by the producer; null if it set none."),
    Column("__messageProperties", (MAP_TYPE,), "Properties of the message; empty if there are none."),
)

METADATA_COLUMNS: Final[tuple[Column, ...]] = (
    Column(
        "__orderingKey",
        ("binary",),
        "Ordering key: decides about order and sharing out in place of the key; null without.",
    ),
    Column("__producerName", ("string",), "Name of the producer."),
    Column("__sequenceId", ("bigint",), "Sequence id that the producer gave the message."),
    Column("__schemaVersion", ("bigint",), "Version of the schema that the message was written with; null without."),
    Column(
        "__redeliveryCount",
        ("int",),
        "Retries that a retry letter or dead letter has behind it (`RECONSUMETIMES`); 0 for other messages: a reader "
        "gets each for the first time, since redeliveries are counted for a subscription.",
    ),
    Column("__partition", ("int",), "Partition of the topic; null on a topic without partitions."),
    Column("__ledgerId", ("bigint",), "Ledger of the message."),
    Column("__entryId", ("bigint",), "Entry of the message in its ledger, the last one of a chunked message."),
    Column("__batchIndex", ("int",), "Place of the message in its batch; null outside a batch."),
    Column(
        "__brokerPublishTime",
        ("timestamp",),
        "When the broker took the message; null unless the broker keeps it (`brokerEntryMetadataInterceptors` of an "
        "Apache Pulsar, exposed by `exposingBrokerEntryMetadataToClientEnabled`).",
    ),
    Column("__index", ("bigint",), "Number of the message in its topic partition, from 0; null as the time before."),
    Column(
        "__encryptionContext",
        ("string",),
        "JSON of an encrypted message's keys, parameter, compression and batch size, to decrypt what "
        "`cryptoFailureAction` `CONSUME` reads; null of others, and of chunked messages.",
    ),
)
"""Columns of a read that are not there unless `metadataColumns` or the schema names them."""

WRITE_COLUMNS: Final[tuple[Column, ...]] = (
    Column(
        "value",
        ("string", "binary", "struct"),
        "Payload, required: text as UTF-8, bytes as they are, a struct as JSON; null becomes a null value (tombstone).",
    ),
    Column(
        "__key",
        ("string", "binary"),
        "Partition key; decides the partition by its hash. Bytes are sent, and hashed, as base64 text with its flag, "
        "as Java's `keyBytes` does: cast a `__key` that was read to string to write text keys. Null: no key.",
    ),
    Column("__topic", ("string",), "Topic of the row, required unless the option `topic` is given."),
    Column(
        "__eventTime",
        ("timestamp", "timestamp_ntz", "bigint"),
        "Event time; a number is milliseconds since 1970 UTC, a `timestamp_ntz` a time in the session's time zone. "
        "Null: none.",
    ),
    Column("__messageProperties", (MAP_TYPE,), "Properties of the message; a null value in the map is an error."),
    Column(
        "__orderingKey",
        ("binary", "string"),
        "Ordering key: decides on a Key_Shared subscription in place of the key, not about the partition. Null: none.",
    ),
    Column(
        "__schemaVersion",
        ("bigint", "int"),
        "With `schemaType` AUTO_PRODUCE_BYTES: version of the topic's schema that the value is encoded with; null: the "
        "newest.",
    ),
    Column(
        "__partition",
        ("int", "bigint"),
        "Partition of the row's topic, from 0, in place of the choice by key and `messageRoutingMode`; null: that "
        "choice.",
    ),
    Column(
        "__deliverAt",
        ("timestamp", "timestamp_ntz", "bigint"),
        "Time before which Shared and Key_Shared subscriptions do not deliver the message; numbers and "
        "`timestamp_ntz` are those of `__eventTime`. Such a message is sent alone, not in a batch. Null: at once.",
    ),
    Column(
        "__deliverAfterMs",
        ("bigint", "int"),
        "In place of `__deliverAt`: milliseconds from the moment when the row is written. Null: at once.",
    ),
    Column(
        "__sequenceId",
        ("bigint",),
        "Sequence id of the message, from 0: it grows from row to row that one task writes to a partition, and is "
        "never null ([Effectively once](#effectively-once)). Without the column ids are counted.",
    ),
)

NOT_THERE: Final = {
    "__replicatedFrom": "messages from other clusters are not distinguished",
}
"""Columns that users look for and that are not there, with the reason."""

ON_REQUEST: Final = {column.name: column for column in METADATA_COLUMNS}


def metadata_columns(text: str) -> tuple[str, ...]:
    """Reads the names of the option `metadataColumns`: separated by commas, or `all` (READ-12). Raises ValueError."""
    if text.strip() == "all":
        return tuple(ON_REQUEST)
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    no_doubles(names)
    for name in names:
        if name in NOT_THERE:
            raise SchemaError(f"there is no column {name}: {NOT_THERE[name]}")
        if name not in ON_REQUEST:
            near = near_names(name, ON_REQUEST)
            raise SchemaError(f"no column {name}{near}; there are {', '.join(ON_REQUEST)}")
    return names


def no_doubles(names: Iterable[str]) -> None:
    """Refuses a column that is there twice. Raises SchemaError."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SchemaError(f"column {name} is there twice: rename or drop one of them")
        seen.add(name)


def near_names(name: str, known: Iterable[str]) -> str:
    """Asks whether columns were meant whose names are close to this one; empty for none."""
    lower = {column.lower(): column for column in known}
    near = difflib.get_close_matches(name.lower(), list(lower), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(lower[match] for match in near)}?" if near else ""


def fields_of(schema: Any) -> list[tuple[str, str, bool]]:
    """Returns name, Spark type and nullability of each column of a `StructType`, by its public face only."""
    return [(field.name, field.dataType.simpleString(), bool(field.nullable)) for field in schema.fields]
