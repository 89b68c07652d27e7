"""Messages for topics of tests: rows, or a file of them.

Texts and bytes are messages as they are, sent by the official client. Rows that have names become records of a schema,
sent as a table (`send_table`); that needs the extra `connector`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import TopicName

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
        if not getattr(self, "is_running", True):
            raise RuntimeError("the broker is not running: start() it first")
        _check_topic(topic)
        given = rows if file is None else _rows_of(Path(file))
        if isinstance(given, Iterator):
            given = list(given)
        if isinstance(given, list | tuple):
            _check_kinds(topic, given)
        if isinstance(given, list | tuple) and all(isinstance(value, str | bytes) for value in given):
            if key is not None:
                raise ValueError(f"key={key!r}: texts have no columns; give rows with names, such as {{{key!r}: …}}")
            return _send_values(self.client(), topic, given)
        if isinstance(given, str | bytes | Mapping):
            raise ValueError(f"messages for {topic}: want a list of rows, got {type(given).__name__}")
        options = dict(self.spark_options)
        return _send_records(options.pop("service.url"), topic, given, key, options | _schema(schema_type))


def _check_topic(topic: object) -> None:
    if not isinstance(topic, str):
        raise ValueError(f"topic is {topic!r}: give a name")
    try:
        TopicName.parse(topic)
    except InvalidTopicName as error:
        raise ValueError(str(error)) from error


def _check_kinds(topic: str, rows: Sequence[Any]) -> None:
    """Refuses rows that are neither all texts nor all dictionaries (or record batches)."""
    kinds = (str, bytes) if rows and isinstance(rows[0], str | bytes) else (Mapping,)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, kinds) and not hasattr(row, "schema"):
            raise ValueError(f"messages for {topic}: row {number} is {row!r}: give texts alone, or dictionaries alone")


def _schema(schema_type: str | None) -> dict[str, str]:
    return {} if schema_type is None else {"schemaType": schema_type}


def _rows_of(file: Path) -> Any:
    read = _FORMATS.get(file.suffix)
    if read is None:
        raise ValueError(f"{file}: the name of a file with messages ends in {', '.join(_FORMATS)}")
    try:
        return read(file)
    except ValueError as error:  # of Python's readers and of Arrow's
        raise ValueError(f"{file}: {error}") from error


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def _json_lines(file: Path) -> list[Any]:
    return [_json_of(line, number) for number, line in enumerate(_lines(file), 1) if line.strip()]


def _json_of(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {number} is no JSON: {error}") from error


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

    import pulsar

    try:
        producer = client.create_producer(topic, block_if_queue_full=True)
        for value in values:
            producer.send_async(value.encode() if isinstance(value, str) else value, done)
        producer.flush()
    except pulsar.PulsarException as error:
        raise RuntimeError(f"messages for {topic}: refused: {type(error).__name__}") from error
    finally:
        close_client(client)
    if refusals:
        raise RuntimeError(f"messages for {topic}: {len(refusals)} of {len(values)} were refused: {refusals[0]}")
    return len(values)


def _send_records(service_url: str, topic: str, rows: Any, key: str | None, options: dict[str, str]) -> int:
    from spark_pulsar.connector.tables import send_table  # names the extra that is missing

    import pyarrow as pa  # isort: skip

    from spark_pulsar.connector.schemas.types.writable_types import writable_table

    try:
        table = writable_table(_table_of(rows))
    except (pa.ArrowException, ValueError) as error:  # values of several types in one column
        raise ValueError(f"messages for {topic}: {error}") from error
    if key is not None:
        table = _with_key(table, key)
    return send_table(service_url, topic, table, options=options)


def _table_of(rows: Any) -> Any:
    import pyarrow as pa

    is_list = isinstance(rows, list | tuple) and all(isinstance(row, Mapping) for row in rows)
    return pa.Table.from_pylist([*rows]) if is_list else rows


def _with_key(table: pa.Table, key: str) -> pa.Table:
    import pyarrow as pa

    if key not in table.column_names:
        raise ValueError(f"key={key!r} is no column; there are {', '.join(table.column_names)}")
    return table.append_column("__key", table[key].cast(pa.string()))
