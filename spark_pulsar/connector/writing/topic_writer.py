"""Rows of one topic in one task: routed to its partitions, encoded as batches, sent by a publisher for each."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.clock import wall_ms
from spark_pulsar.client.publishing.publisher import Publisher
from spark_pulsar.connector.effectively_once.outcomes import TaskOutcome
from spark_pulsar.connector.effectively_once.resuming import Resuming, refusing_removed_producers
from spark_pulsar.connector.effectively_once.sequence_ids import SEQUENCE_ID, SequenceIds
from spark_pulsar.connector.errors import SchemaError
from spark_pulsar.connector.options.options import KEY_BASED, Options
from spark_pulsar.connector.schemas.deriving.registration import agreed_schema, refused
from spark_pulsar.connector.schemas.encoding.session_zone import as_instants
from spark_pulsar.connector.transactions.transaction import add_partitions
from spark_pulsar.connector.writing.encoded_values import KnownVersions, RowVersions, topic_schema
from spark_pulsar.connector.writing.entry_sender import EntrySender
from spark_pulsar.connector.writing.parallel_opening import open_each
from spark_pulsar.connector.writing.routing import KeylessRouter, grouped_by_key
from spark_pulsar.connector.writing.struct_values import struct_to_json
from spark_pulsar.connector.writing.topic_limits import TopicPolicies, policies_of
from spark_pulsar.model.errors import IncompatibleSchema

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_pulsar.connector.schemas.deriving.row_schema import RowSchema
    from spark_pulsar.model.schemas import Schema
    from spark_pulsar.wire.columns.encode import MessageColumns
    from spark_pulsar.wire.columns.key_hashes import RowGroups


PENDING_BYTES: Final = 64 * 1024 * 1024
LEAST_PENDING_BYTES: Final = 256 * 1024
"""Bytes that may be without receipt: of one topic, shared by its partitions, and at least of each partition."""
DELIVER_AT: Final = "__deliverAt"
DELIVER_AFTER: Final = "__deliverAfterMs"


@dataclass(slots=True)
class TopicWriter:
    """Publishes the rows of one topic in one task: one publisher for each partition that gets any (SINK-3, SINK-6)."""

    client: PulsarClient
    options: Options
    topic: str
    schema: RowSchema | None = None
    outcome: TaskOutcome | None = None
    """Outcome of the attempt, where a guarantee is to be kept."""
    _partitions: list[str] = field(init=False)
    _publishers: dict[int, Publisher] = field(init=False, default_factory=dict)
    _sequence_ids: SequenceIds = field(init=False)
    _resuming: Resuming | None = field(init=False, default=None)
    _router: KeylessRouter = field(init=False)
    _policies: TopicPolicies = field(init=False)
    _sender: EntrySender = field(init=False)
    _attached: Schema | None = field(init=False)
    """Schema of the producers, if they have one."""
    _versions: KnownVersions = field(init=False)

    def __post_init__(self) -> None:
        self._policies = policies_of(self.client.config, self.options.admin_url, self.topic)
        self._sender = EntrySender(self.options, self.topic, self._policies)
        self._partitions = self.client.partitions_of(self.topic, create=True)
        if self.schema is not None and self.options.topic is None:  # else the driver has done so
            self.schema = agreed_schema(self.client, self.topic, self.schema)
        count, first = len(self._partitions), None
        if self.outcome is not None:
            self._resuming = Resuming(self.outcome.attempt, self.topic, self._partitions, self.outcome)
            first = self.outcome.attempt.first_partition(count)
        self._sequence_ids = SequenceIds(self._partitions)
        if self.schema is None:
            self._attached = topic_schema(self.client, self.options, self.topic)
        else:
            self._attached = self.schema.schema if self.schema.is_registered else None
        self._versions = KnownVersions(self.client, self.topic)
        self._router = KeylessRouter(
            count,
            self.options.message_routing_mode,
            self.options.round_robin_rows,
            first=random.randrange(count) if first is None else first,
        )

    def open_only_partition(self) -> None:
        """Opens the publisher of a topic that has one partition, which any row goes to."""
        if len(self._partitions) == 1:
            self._open_all([0])

    def write(self, table: pa.Table) -> None:
        """Encodes and sends rows; returns when everything is on its way, which may wait for earlier receipts."""
        from spark_pulsar.wire.columns.encode import message_columns
        from spark_pulsar.wire.columns.flat import NO_BYTES
        from spark_pulsar.wire.columns.key_hashes import group_rows, text_keys

        key = _column(table, "__key")
        if self.schema is None:
            value = _value(table.column("value"))
        else:
            value, schema_key = self.schema.encode(table)
            key = key if schema_key is None else schema_key
        keys = None if key is None else text_keys(key)
        columns = message_columns(
            value,
            keys=keys,
            ordering_keys=_column(table, "__orderingKey"),
            properties=_column(table, "__messageProperties"),
            event_times=_event_times(table),
            deliver_at_times=delivery_times_ms(table, wall_ms()),
        )
        self._sender.check(columns)
        versions = self._versions.of_rows(table)
        partitions = self._route(keys, _column(table, "__partition"), table.num_rows)
        groups, cuts = group_rows(partitions, len(self._partitions)), NO_BYTES
        if self.options.batcher_builder == KEY_BASED:
            groups, cuts = grouped_by_key(columns, groups)
        self._open_all((groups.offsets[1:] - groups.offsets[:-1]).nonzero()[0].tolist())
        named_ids = _column(table, SEQUENCE_ID)
        if named_ids is not None:
            ids = self._sequence_ids.given(named_ids, groups)
        elif self._resuming is None:
            ids = self._sequence_ids.counted(groups)
        else:
            ids = self._resuming.running.of_rows(columns.content_hashes(), groups)
        if self._resuming is None:
            self._send_all(columns, groups, ids, cuts, versions)
            return
        with refusing_removed_producers(self._resuming.attempt):
            for part, part_ids in self._resuming.parts(groups, ids, self._publishers):
                self._send_all(columns, part, part_ids, NO_BYTES, versions)

    def _send_all(
        self, columns: MessageColumns, groups: RowGroups, ids: Any, cuts: Any, versions: RowVersions | None
    ) -> None:
        from spark_pulsar.wire.columns.encode import encode_batches

        if versions is not None:
            cuts = versions.cuts(groups.rows) | (cuts if len(cuts) else 0)
        batches = encode_batches(
            columns,
            groups=groups,
            sequence_ids=ids,
            cuts=cuts,
            max_messages=self.options.batching_max_messages,
            max_bytes=self._sender.batch_bytes(self._publishers.values()),
        )
        if self._resuming is None:
            self._sender.send_all(self._publishers, batches, versions)
            return
        # With one entry in flight a partition, partitions take turns, so that all of them are busy.
        for batch in batches.in_turns():
            version = b"" if versions is None else versions.of_row(int(batch.rows[0]))
            self._sender.send(self._publishers[batch.group], batch, version)

    def _route(self, keys: Any, named: Any, row_count: int) -> Any:
        """Returns the partition of each row: the one that it names, else that of its key, else by routing mode (SINK-2,
        SINK-10)."""
        import numpy as np

        from spark_pulsar.wire.columns.key_hashes import partition_of

        count = len(self._partitions)
        if count == 1 or keys is None:
            partitions = np.full(row_count, 0 if count == 1 else -1, np.int64)
        else:
            partitions = partition_of(keys, count, self.options.hashing_scheme)  # type: ignore[arg-type]
        if named is not None:
            self._route_named(named, partitions)
        self._router.fill(partitions)
        return partitions

    def _route_named(self, named: Any, partitions: Any) -> None:
        """Sets the partitions that rows name (SINK-4). Raises SchemaError for one that the topic does not have."""
        import numpy as np

        column = named.combine_chunks()
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
        is_named = column.is_valid().to_numpy(zero_copy_only=False)
        wrong = is_named & ((numbers < 0) | (numbers >= len(self._partitions)))
        if wrong.any():
            last = len(self._partitions) - 1
            raise SchemaError(f"__partition is {numbers[np.argmax(wrong)]}, and {self.topic} has 0 to {last}")
        partitions[is_named] = numbers[is_named]

    def _open_all(self, indexes: list[int]) -> None:
        """Opens a publisher on each partition that has none (SINK-18)."""
        new = [index for index in indexes if index not in self._publishers]
        if not new:
            return
        resuming = self._resuming
        if resuming is not None and resuming.attempt.transaction is not None:
            add_partitions(self.client, resuming.attempt.transaction, [self._partitions[index] for index in new])
        if resuming is None:
            self._publishers |= open_each(new, self._open, Publisher.abort)
        for index in new:
            if resuming is not None:
                self._publishers[index] = self._open(index)
            self._sequence_ids.begin(index, self._publishers[index].next_sequence_id)
        if resuming is not None:
            resuming.note_new(self.client, self.options, {index: self._publishers[index] for index in new})

    def _open(self, index: int) -> Publisher:
        settings: dict[str, Any] = {
            "max_pending_bytes": self.options.queued_bytes(
                max(LEAST_PENDING_BYTES, PENDING_BYTES // len(self._partitions))
            ),
            "receipt_timeout_ms": self.options.send_timeout_ms,
            "schema": self._attached,
            "properties": dict(self.options.producer_properties),
            "encrypted": bool(self.options.encryption_keys),
            "split": self._sender.split,
        }
        try:
            if self._resuming is None:
                if self.options.pending_entries is not None:
                    settings["max_pending_entries"] = self.options.pending_entries
                publisher = self.client.publisher(self._partitions[index], **settings)
            else:
                publisher = self._resuming.open(self.client, index, **settings)
            publisher.topic_limit_bytes = self._policies.max_message_size_bytes
            return publisher
        except IncompatibleSchema as refusal:
            if self.schema is None:
                raise
            raise refused(self.client, self.topic, self.schema, refusal) from None

    def flush(self) -> None:
        """Waits for the receipts of everything sent; names that the next attempt or task needs are free then."""
        resuming = self._resuming
        if resuming is None:
            for publisher in self._publishers.values():
                publisher.flush()
            return
        with refusing_removed_producers(resuming.attempt):
            for publisher in self._publishers.values():
                publisher.flush()
        resuming.finish(self._publishers, self._open)
        for publisher in self._publishers.values():
            publisher.close()

    def close(self) -> None:
        """Abandons the producers, and whatever has no receipt."""
        for publisher in self._publishers.values():
            publisher.abort()


def _value(column: Any) -> Any:
    import pyarrow as pa

    if not pa.types.is_struct(column.type):
        return column
    return pa.chunked_array([struct_to_json(chunk) for chunk in column.chunks], pa.large_string())


def _event_times(table: pa.Table) -> Any:
    """Returns the event times of rows as instants, which are written in milliseconds (SINK-1); None without any."""
    from spark_pulsar.connector.schemas.encoding.session_zone import as_instants

    return as_instants(table.column("__eventTime")) if "__eventTime" in table.column_names else None


def _column(table: pa.Table, name: str) -> Any:
    return table.column(name) if name in table.column_names else None


def delivery_times_ms(table: pa.Table, now_ms: int) -> Any:
    """Returns the delivery time of each row in ms since 1970 UTC, 0 for none; None where no column names any (SINK-5).

    A time at or before 1970 and a delay that is not above 0 are none (DEL-10). Raises SchemaError for a row with both.
    """
    import numpy as np

    from spark_pulsar.wire.columns.flat import event_times_ms

    names = table.column_names
    times = np.zeros(table.num_rows, np.int64)
    if DELIVER_AT in names:
        times = np.maximum(event_times_ms(as_instants(table.column(DELIVER_AT))), 0)
    if DELIVER_AFTER in names:
        delays_ms = event_times_ms(table.column(DELIVER_AFTER))
        both = (delays_ms != 0) & (times != 0)
        if both.any():
            raise SchemaError(
                f"a row has {DELIVER_AT} and {DELIVER_AFTER} ({delays_ms[np.argmax(both)]}): give one of them, and "
                "null for the other"
            )
        times = np.where(delays_ms > 0, now_ms + np.minimum(delays_ms, np.iinfo(np.int64).max - now_ms), times)
    return times if DELIVER_AT in names or DELIVER_AFTER in names else None
