"""`spark-pulsar sql`: a query by DuckDB over topics, which are read as it needs them: only the columns that it uses
(TABLE-6)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import typer

from spark_pulsar.cli.tables.saving import with_progress
from spark_pulsar.cli.tables.topic_reading import TopicReading
from spark_pulsar.model.errors import InvalidTopicName
from spark_pulsar.model.names import TopicName

_FILES: Final = (".parquet", ".csv", ".json", ".jsonl", ".ndjson")
"""Endings of names that DuckDB reads as files."""
_NOT_FOR_PLANS: Final = "statistics_propagation,filter_pushdown"
"""Optimizers that hide what a scan reads: the tables of a plan are empty, and a filter is no column of a scan."""
_BATCH_ROWS: Final = 10_000


class BadQuery(Exception):
    """A query that DuckDB does not take; the text is its reason."""


class Topic:
    """A topic as DuckDB scans it: each scan is a read of its own, of the columns that the query uses."""

    def __init__(self, reading: TopicReading, name: str) -> None:
        self._reading = reading
        self.name = name
        with contextlib.closing(reading.reader_with_ids(name)) as reader:
            self.schema = reader.schema
        self.columns: list[str] = self.schema.names
        self.error: Exception | None = None

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Opens a scan; DuckDB also opens some for the schema alone, which read nothing."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[Any]:
        """Yields all columns, those that the query does not use as nulls."""
        import pyarrow as pa

        try:
            with contextlib.closing(self._reading.reader_with_ids(self.name, self.columns)) as reader:
                for batch in with_progress(reader, self.name):
                    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                    arrays = [
                        columns[field.name] if field.name in columns else pa.nulls(batch.num_rows, field.type)
                        for field in self.schema
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        except Exception as error:  # DuckDB would show its traceback
            self.error = error
            raise


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and the topics that it names."""

    text: str
    topics: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Query:
        """Parses a query. Raises BadQuery, typer.BadParameter."""
        import duckdb

        serialized = duckdb.connect().execute("SELECT json_serialize_sql(?)", [text]).fetchone()
        assert serialized is not None
        tree = json.loads(serialized[0])
        if tree.get("error"):
            raise BadQuery(_advised(str(tree.get("error_message", "")), text))
        names = dict.fromkeys(_tables(tree, frozenset()))
        for name in names:
            try:
                TopicName.parse(name)
            except InvalidTopicName as error:
                raise BadQuery(str(error)) from error
        return cls(text, tuple(names))

    def run(self, reading: TopicReading) -> Iterator[Any]:
        """Yields the schema of the result, then its batches. Raises BadQuery, and the connector's errors."""
        import duckdb

        topics = []
        for name in self.topics:
            with reading.errors(name):
                topics.append(Topic(reading, name))
        try:
            _choose_columns(self.text, topics)
            connection = duckdb.connect()
            for topic in topics:
                connection.register(topic.name, topic)
            reader = connection.sql(self.text).to_arrow_reader(_BATCH_ROWS)
            yield reader.schema
            yield from reader
        except (duckdb.Error, OSError) as error:  # Arrow's errors are OSError, too
            for topic in topics:
                if topic.error is not None:
                    with reading.errors(topic.name):
                        raise topic.error from None
            raise BadQuery(str(error).partition("\n\nLINE ")[0]) from error


def _tables(node: Any, named: frozenset[str]) -> Iterator[str]:
    """Yields the names of tables in a parsed query that are no part of the query itself, nor files."""
    if isinstance(node, list):
        for member in node:
            yield from _tables(member, named)
    if not isinstance(node, dict):
        return
    own = named | {entry["key"] for entry in (node.get("cte_map") or {}).get("map", ())}
    if node.get("type") == "BASE_TABLE":
        if node.get("schema_name") or node.get("catalog_name"):
            parts = [part for part in (node.get("catalog_name"), node.get("schema_name"), node["table_name"]) if part]
            raise typer.BadParameter(f'a topic of another namespace is quoted: "{"/".join(parts)}"')
        if node["table_name"] not in own and not _is_file(node["table_name"]):
            yield node["table_name"]
    for member in node.values():
        yield from _tables(member, own)


def _is_file(name: str) -> bool:
    return name.lower().endswith(_FILES) and Path(name).exists()


def _choose_columns(text: str, topics: list[Topic]) -> None:
    """Leaves to each topic the columns that the query's plan reads of it, one at least."""
    import duckdb

    planning = duckdb.connect()
    planning.execute(f"SET disabled_optimizers = '{_NOT_FOR_PLANS}'")
    for topic in topics:
        planning.register("schema_of_topic", topic.schema.empty_table())
        planning.execute(f'CREATE TABLE {_quoted(topic.name)} AS FROM "schema_of_topic"')
        planning.unregister("schema_of_topic")
    scans: list[tuple[str, list[str]]] = []
    for _, tree in planning.execute(f"EXPLAIN (FORMAT JSON) {text}").fetchall():
        for node in json.loads(tree):
            scans += _scans(node)
    for topic in topics:
        read = [columns for table, columns in scans if table.endswith(f".{topic.name}") or table == topic.name]
        used = {_column(path, topic.schema.names) for columns in read for path in columns}
        if read and None not in used:
            topic.columns = [name for name in topic.schema.names if name in used] or [_cheapest(topic.schema.names)]


def _scans(node: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yields the table and the columns of each scan in a plan."""
    info = node.get("extra_info") or {}
    if "Table" in info:
        read = info.get("Projections", [])
        yield str(info["Table"]).replace('"', ""), [read] * bool(read) if isinstance(read, str) else read
    for child in node.get("children", ()):
        yield from _scans(child)


def _column(path: str, names: list[str]) -> str | None:
    """Returns the column that a path begins with, such as `customer.name`; None for none."""
    fitting = (name for name in names if path == name or path.startswith(f"{name}."))
    return max(fitting, key=len, default=None)


def _cheapest(names: list[str]) -> str:
    return "__publishTime" if "__publishTime" in names else names[0]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _advised(reason: str, text: str) -> str:
    """Adds what helps most: names with other characters than letters are quoted, and only queries are taken."""
    if "Only SELECT" in reason:
        return "only queries are run: SELECT … FROM a topic"
    return f'{reason}; a topic whose name has other characters than letters, digits and _ is quoted: "my-topic"'
