"""Messages for topics of tests: rows, or a file of them.

Texts and bytes are messages as they are, sent by the official client. Rows that have names become records of a schema,
sent as a table (`send_table`); that needs the extra `connector`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    import pulsar
    import pyarrow as pa

JSON: Final = "JSON"


class Seeded(Protocol):
    """A Pulsar that tests use, and its messages."""

    service_url: str

    @property
    def spark_options(self) -> dict[str, str]:
        """Options of a read or a write, `service.url` among them."""

    def client(self) -> pulsar.Client:
        """Makes an official client."""

    def seed(
        self,
        topic: str,
        rows: Any = None,
        *,
        file: str | Path | None = None,
        key: str | None = None,
        schema_type: str | None = JSON,
    ) -> int:
        """Publishes rows to a topic, or those of a file (.jsonl, .json, .csv, .parquet, .txt), and returns their
        number.

        Texts and bytes are messages as they are. Rows with names, dictionaries or a table, are records of
        `schema_type`, the option schemaType of a write; `key` names the column that becomes the messages' key.
        """
        if (rows is None) == (file is None):
            raise ValueError(f"messages for {topic}: give rows or a file")
        given = rows if file is None else _rows_of(Path(file))
        if isinstance(given, list | tuple) and all(isinstance(value, str | bytes) for value in given):
            if key is not None:
                raise ValueError(f"key={key!r}: texts have no columns; give rows with names, such as {{{key!r}: …}}")
            return _send_values(self.client(), topic, given)
        if isinstance(given, str | bytes | Mapping):
            raise ValueError(f"messages for {topic}: want a list of rows, got {type(given).__name__}")
        options = dict(self.spark_options)
        return _send_records(options.pop("service.url"), topic, given, key, options | _schema(schema_type))


def _schema(schema_type: str | None) -> dict[str, str]:
    return {} if schema_type is None else {"schemaType": schema_type}


def _rows_of(file: Path) -> Any:
    read = _FORMATS.get(file.suffix)
    if read is None:
        raise ValueError(f"{file}: the name of a file with messages ends in {', '.join(_FORMATS)}")
    return read(file)


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def _json_lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in _lines(file) if line.strip()]


def _json(file: Path) -> Any:
    return json.loads(file.read_text())


def _csv(file: Path) -> pa.Table:
    from pyarrow import csv

    return csv.read_csv(file)


def _parquet(file: Path) -> pa.Table:
    from pyarrow import parquet

    return parquet.read_table(file)


_FORMATS: Final[Mapping[str, Callable[[Path], Any]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".csv": _csv,
    ".parquet": _parquet,
    ".txt": _lines,
}


def _send_values(client: pulsar.Client, topic: str, values: Sequence[str | bytes]) -> int:
    from spark_pulsar.testing.clients import close_client

    refusals: list[str] = []

    def done(result: Any, message_id: Any) -> None:
        if result.name != "Ok":
            refusals.append(result.name)

    try:
        producer = client.create_producer(topic, block_if_queue_full=True)
        for value in values:
            producer.send_async(value.encode() if isinstance(value, str) else value, done)
        producer.flush()
    finally:
        close_client(client)
    if refusals:
        raise RuntimeError(f"messages for {topic}: {len(refusals)} of {len(values)} were refused: {refusals[0]}")
    return len(values)


def _send_records(service_url: str, topic: str, rows: Any, key: str | None, options: dict[str, str]) -> int:
    from spark_pulsar.connector.tables import send_table  # names the extra that is missing

    import pyarrow as pa  # isort: skip

    from spark_pulsar.connector.schemas.types.writable_types import writable_table

    table = writable_table(pa.Table.from_pylist([*rows]) if isinstance(rows, list | tuple) else rows)
    if key is not None:
        table = _with_key(table, key)
    return send_table(service_url, topic, table, options=options)


def _with_key(table: pa.Table, key: str) -> pa.Table:
    import pyarrow as pa

    if key not in table.column_names:
        raise ValueError(f"key={key!r} is no column; there are {', '.join(table.column_names)}")
    return table.append_column("__key", table[key].cast(pa.string()))
