"""Record batches of a task: kernels' columns go in, the columns of the read come out, of any schema versions
(SCHEMA-17: `messages`), undecodable rows, which decoders find together (SCHEMA-18), go their way."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.errors import UndecodableMessageError
from spark_pulsar.connector.options.decode_mode import DEADLETTER, ERROR_COLUMN, FAILFAST, PERMISSIVE
from spark_pulsar.connector.schemas.decoding.dead_letters import DeadLetters, id_text
from spark_pulsar.connector.schemas.decoding.evolution import Evolution
from spark_pulsar.connector.schemas.decoding.messages import Decoded, MessageDecoder
from spark_pulsar.connector.schemas.decoding.plan import NO_VERSION, SCHEMA_VERSION, Decoding
from spark_pulsar.connector.schemas.lookup import definition_at, newest_definition
from spark_pulsar.connector.schemas.payloads.flat_payloads import without
from spark_pulsar.connector.schemas.payloads.reasons import Reasons
from spark_pulsar.connector.schemas.payloads.rescued import with_places
from spark_pulsar.connector.task_log import record_undecoded


class BatchDecoder:
    """Decodes the record batches of one topic partition. A context manager: its end closes the dead letter topic."""

    def __init__(
        self, client: PulsarClient, topic: str, ledger_id: int, decoding: Decoding, names: Sequence[str]
    ) -> None:
        """`ledger_id` is that of the end of the range: a ledger that the topic has had since it was made."""
        self._topic = topic
        self._decoding = decoding
        self._names = names
        self._messages: MessageDecoder | None = None
        planned = decoding.definition
        if planned is not None and decoding.wanted:
            wanted = pa.schema([pa.field(name, kind) for name, kind in decoding.wanted])
            self._messages = MessageDecoder(
                planned,
                wanted,
                lambda version: definition_at(client, topic, version, ledger_id=ledger_id, planned=planned),
                decoding.mode.json_bytes,
                Evolution.of(decoding.mode, topic, lambda: newest_definition(client, topic)),
            )
        self._letters = DeadLetters(client, decoding.mode.dead_letter_topic or "", topic)
        self._undecoded, self._reason = 0, ""

    def __enter__(self) -> BatchDecoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        record_undecoded(self._topic, self._undecoded, self._reason, self._decoding.mode.mode)
        self._letters.__exit__(kind, error, trace)

    def decode(self, batch: Any) -> Any:
        """Returns the batch with the columns of the read. Raises UndecodableMessageError in mode FAILFAST."""
        keys = batch.column("__key") if self._decoding.has_separate_keys else None
        decoded = Decoded({})
        if self._messages is not None:
            versions = batch.column(SCHEMA_VERSION).fill_null(NO_VERSION)
            decoded = self._messages.decode(batch.column("value"), keys, versions)
        columns, errors, mode = decoded.columns, decoded.errors, self._decoding.mode
        if errors:
            self._undecoded += len(errors)
            self._reason = self._reason or errors.first[1]
        if errors and mode.mode == FAILFAST:
            self._fail(batch, errors)
        if mode.mode == PERMISSIVE:
            columns[ERROR_COLUMN] = errors.column(len(batch))
            columns[mode.corrupt_record] = _only(batch.column("value"), errors)
        if mode.rescued_data is not None:
            columns[mode.rescued_data] = self._rescued(batch, decoded.rescued)
        arrays = [columns[name] if name in columns else batch.column(name) for name in self._names]
        result = pa.RecordBatch.from_arrays(arrays, names=list(self._names))
        if errors and mode.mode == DEADLETTER:
            self._letters.publish(batch, errors)
            return result.filter(pa.array(~errors.are_of(len(batch))))
        return result

    def _rescued(self, batch: Any, texts: Any) -> Any:
        """Returns rescued texts with what finds their messages."""
        if texts is None:
            return pa.nulls(len(batch), pa.string())
        ids, versions = batch.column("__messageId"), batch.column(SCHEMA_VERSION).fill_null(NO_VERSION)
        return with_places(texts, self._topic, lambda row: id_text(ids[row].as_py()), versions)

    def _fail(self, batch: Any, errors: Reasons) -> None:
        row, reason = errors.first
        at = id_text(batch.column("__messageId")[row].as_py())
        more = f" (and {len(errors) - 1} more of {len(batch)})" if len(errors) > 1 else ""
        raise UndecodableMessageError(
            f"{self._topic}: message {at}{more} does not decode by the topic's schema: {reason}. Set mode to "
            "PERMISSIVE for nulls and an error column, or to DEADLETTER, with deadLetterTopic, to go on without it"
        )


def _only(payloads: Any, errors: Reasons) -> Any:
    """Returns the payloads of the rows with errors, null in all others."""
    if not errors:
        return pa.nulls(len(payloads), pa.binary())
    return without(payloads, ~errors.are_of(len(payloads)))
