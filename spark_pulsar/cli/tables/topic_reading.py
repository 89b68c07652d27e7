"""Topics as tables for the commands: where a read begins and ends, and what is wrong in one line."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import typer

from spark_pulsar.cli.access.connector_options import connector_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.bounds import Bound, parse_bound
from spark_pulsar.model.errors import PulsarError, TopicNotFound
from spark_pulsar.model.extras import require
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import MessageId

_ID: Final = "__messageId"
_PARTS: Final = ("__ledgerId", "__entryId", "__partition", "__batchIndex")
_NEVER_MS: Final = "253402300799000"
"""A publish time after which there is none: a table that begins at `latest` is empty."""
_LISTING_TIMEOUT_MS: Final = 2_000
_ARROW: Final = ("numpy", "pyarrow")


@dataclass(frozen=True, slots=True)
class TopicReading:
    """A Pulsar from which topics are read as tables, all with the same options."""

    service_url: str
    options: dict[str, str] = field(repr=False)

    @classmethod
    def of(cls, access: AccessOptions, what: str) -> TopicReading:
        """Resolves the access to a Pulsar for `what`. Raises MissingLibrary, typer.BadParameter."""
        require(what, *_ARROW)
        return cls(*connector_access(access))

    def between(self, topic: str | None, first: str, until: str) -> TopicReading:
        """Returns a reading from one bound to another; ids of messages are those of `topic`. Raises
        typer.BadParameter."""
        start = parse_bound(first, "--from", words=("earliest", "latest"))
        end = parse_bound(until, "--until", words=("latest",))
        if topic is None and (start.message_id or end.message_id):
            raise typer.BadParameter("an id is one of a topic: give a time, or -2h", param_hint="--from, --until")
        given = {**_bound("starting", start, topic), **_bound("ending", end, topic)}
        return replace(self, options=self.options | given)

    def reader(self, topic: str, columns: list[str] | None = None, limit: int | None = None) -> Any:
        """Returns a reader of record batches, whose schema is known at once. Raises the connector's errors."""
        from spark_pulsar.connector.tables import table_reader

        return table_reader(self.service_url, topic, columns=columns, limit=limit, options=self.options)

    def reader_with_ids(self, topic: str, columns: list[str] | None = None, limit: int | None = None) -> Any:
        """Returns a reader whose `__messageId` is the text `ledger:entry:partition:batch`, as commands print it."""
        import pyarrow as pa

        reader = self.reader(topic, columns, limit)
        names = reader.schema.names
        if _ID not in names:
            return reader
        reader.close()
        others = [name for name in names if name != _ID]
        read = self.reader(topic, list(dict.fromkeys((*others, *_PARTS))), limit)
        schema = pa.schema([pa.field(_ID, pa.string()) if name == _ID else read.schema.field(name) for name in names])
        return pa.RecordBatchReader.from_batches(schema, _text_ids(read, schema))

    @contextlib.contextmanager
    def errors(self, topic: str | None = None) -> Iterator[None]:
        """Turns errors of a read into one line on standard error, with status 1; of a topic that there is none of, its
        nearest name is there, too."""
        from spark_pulsar.cli.tables.json_text import NoText
        from spark_pulsar.connector.errors import CONNECTOR_ERRORS
        from spark_pulsar.connector.refusals import with_cure

        one_line: tuple[type[Exception], ...] = (*CONNECTOR_ERRORS, NoText)

        try:
            yield
        except TopicNotFound as error:
            raise failed(f"{error}{self._nearest(topic)}") from error
        except PulsarError as error:
            raise failed(f"{self.service_url}: {with_cure(error)}") from error
        except one_line as error:
            raise failed(str(error)) from error
        except OSError as error:
            if error.filename is None and error.strerror is None:
                raise
            raise failed(f"{error.filename or 'the file'} cannot be written: {error.strerror}") from error

    def _nearest(self, topic: str | None) -> str:
        """Returns a question for the topic that was meant, empty when there is none like it."""
        if topic is None:
            return ""
        name = TopicName.parse(topic)
        local_names = {TopicName.parse(full).base.local for full in self._topics(f"{name.tenant}/{name.namespace}")}
        near = difflib.get_close_matches(name.local, local_names, n=1, cutoff=0.5)
        return f"; did you mean {topic.removesuffix(name.local)}{near[0]}?" if near else ""

    def _topics(self, namespace: str) -> list[str]:
        from spark_pulsar.connector.options.parsing import parse_options
        from spark_pulsar.connector.worker_clients import own_client

        options = {**self.options, "service.url": self.service_url, "operationTimeoutMs": str(_LISTING_TIMEOUT_MS)}
        with own_client(parse_options(options)) as client:
            try:
                return client.topics_of(namespace)
            except PulsarError:
                return []  # a role may read a topic, and not list those beside it


def _text_ids(reader: Any, schema: Any) -> Iterator[Any]:
    """Yields batches in which the parts of ids are one text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    with contextlib.closing(reader):
        for batch in reader:
            parts = [pc.fill_null(batch.column(name).cast(pa.string()), "-1") for name in _PARTS]
            ids = pc.binary_join_element_wise(*parts, ":")
            arrays = [ids if name == _ID else batch.column(name) for name in schema.names]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _bound(word: str, bound: Bound, topic: str | None) -> dict[str, str]:
    """Returns the option of the connector for a bound; its ends are exclusive."""
    if bound.time_ms is not None:
        return {f"{word}Time": str(bound.time_ms)}
    if bound.message_id is None or topic is None:
        return {"startingTime": _NEVER_MS} if bound.is_latest and word == "starting" else {}
    import json

    full = str(TopicName.parse(topic))
    return {f"{word}Offsets": json.dumps({full: str(_place(bound.message_id, word == "ending"))})}


def _place(message_id: MessageId, is_after: bool) -> MessageId:
    """Returns the id as a start, or the place after it."""
    if not is_after:
        return message_id
    if message_id.batch_index < 0:
        return MessageId(message_id.ledger_id, message_id.entry_id + 1, message_id.partition)
    return MessageId(message_id.ledger_id, message_id.entry_id, message_id.partition, message_id.batch_index + 1)


def failed(text: str) -> typer.Exit:
    """Prints the reason of a failure on standard error; the result is to be raised, for exit status 1."""
    typer.echo(f"spark-pulsar: {text}", err=True)
    return typer.Exit(1)
