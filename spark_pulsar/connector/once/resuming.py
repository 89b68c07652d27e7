"""Resuming: rows that an earlier attempt of the task has written are left out, once the broker proves that it has them.

The broker tells the last sequence id of a producer when it is created. That is proof of two things only together with
an answer to a message:

- A producer that is known has written up to that id. The last of those rows is sent again, and answered as a duplicate
  when it, and so all before it, is on disk: an Apache Pulsar tells ids whose messages are still being written.
- A producer of which nothing is known is new, or the topic does not de-duplicate: both look alike. The first row is
  sent, and the producer created again: a topic that de-duplicates knows its id.

Rows that are sent again and new ones are never in one batch, which an Apache Pulsar would drop as a whole (DED-13).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import OperationTimeout, SequenceIdForgotten
from spark_pulsar.client.publisher import Publisher
from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.connector.once.attempt import TaskAttempt
from spark_pulsar.connector.options.options import AT_LEAST_ONCE
from spark_pulsar.model.errors import ProducerBusy
from spark_pulsar.model.names import TopicName

if TYPE_CHECKING:
    from spark_pulsar.connector.once.sequence_ids import Ids
    from spark_pulsar.wire.columns.hashes import RowGroups


@dataclass(slots=True)
class Resuming:
    """Rows of one topic in one attempt of a task, and what is proved of its producers, by number of the partition."""

    attempt: TaskAttempt
    topic: str
    partition_count: int
    _proved: set[int] = field(init=False, default_factory=set)
    _sent_again: dict[int, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.topic.startswith("non-persistent://"):
            raise self.attempt.refused(
                f"{self.topic} is non-persistent, and keeps nothing that duplicates could be told by; use a persistent "
                f"topic, or {AT_LEAST_ONCE}"
            )

    def open(self, client: PulsarClient, partition: str, **settings: Any) -> Publisher:
        """Returns the task's producer on a partition.

        An earlier attempt that still runs holds the name: it is waited for until it is gone, as long as an operation
        may take, so that two attempts never write side by side. OperationTimeout if it stays.
        """
        name = self.attempt.producer_name(self.partition_count)
        try:
            publisher = client.publisher(
                partition, name=name, deduplicated=True, transaction=self.attempt.transaction, **settings
            )
        except OperationTimeout as error:
            if not isinstance(error.__cause__, ProducerBusy):
                raise
            why = f"{error.cause}: an earlier attempt of this task is still connected"
            raise OperationTimeout(error.what, error.where, error.timeout_ms, why) from error
        try:
            self.attempt.check_known(partition, publisher.last_sequence_id)
        except DeliveryGuaranteeError:
            publisher.abort()
            raise
        return publisher

    def parts(
        self, groups: RowGroups, ids: Ids, publishers: Mapping[int, Publisher]
    ) -> Iterator[tuple[RowGroups, Ids]]:
        """Yields the rows to send, in their order, each part when the one before it is sent; what is written already is
        left out. Raises DeliveryGuaranteeError."""
        import numpy as np

        sizes = np.diff(groups.offsets)
        of_group = np.repeat(np.arange(len(groups)), sizes)
        last = np.array([publishers[at].last_sequence_id if at in publishers else -1 for at in range(len(groups))])
        is_written = ids <= last[of_group]
        if is_written.any():
            # Ids grow in each group, so the rows that are written stand at its beginning.
            counts = np.bincount(of_group[is_written], minlength=len(groups))
            again = (groups.offsets[:-1] + counts - 1)[counts > 0]
            yield _selected(groups, ids, of_group, again)
            for group in np.flatnonzero(counts).tolist():
                self._check_duplicate(group, publishers[group])
        rest = ~is_written
        for group in np.flatnonzero((sizes > 0) & (last < 0)).tolist():
            if group not in self._proved:
                first = groups.offsets[group : group + 1]
                yield _selected(groups, ids, of_group, first)
                self._prove(group, publishers[group])
                rest[first] = False
        if rest.any():
            yield _selected(groups, ids, of_group, np.flatnonzero(rest))

    def _check_duplicate(self, group: int, publisher: Publisher) -> None:
        """Waits until the broker has said that it has the row which was sent again."""
        self._sent_again[group] = self._sent_again.get(group, 0) + 1
        publisher.flush()
        if publisher.duplicates < self._sent_again[group]:
            raise _forgotten(
                self.attempt, f"{publisher.topic} has stored a row of {publisher.producer_name} a second time"
            )

    def _prove(self, group: int, publisher: Publisher) -> None:
        """Creates the producer again, now that it has written a row: a topic that de-duplicates knows of it."""
        try:
            publisher.attach_again()
        except SequenceIdForgotten:
            namespace = TopicName.parse(self.topic).namespace_name
            task, told = self.attempt.task, ""
            if self.attempt.transaction is None:
                told = f". The first row of task {task} is on the topic, for this shows only then; it is written again"
                told += " when the query goes on"
            raise self.attempt.refused(
                f"{publisher.topic} does not de-duplicate. Switch it on (for the namespace: pulsar-admin namespaces "
                f"set-deduplication --enable {namespace}), or use {AT_LEAST_ONCE}{told}"
            ) from None
        self._proved.add(group)


@contextmanager
def refusing_what_is_forgotten(attempt: TaskAttempt | None) -> Iterator[None]:
    """Raises DeliveryGuaranteeError in here when the broker forgets what a producer has written."""
    try:
        yield
    except SequenceIdForgotten as error:
        if attempt is None:
            raise
        raise _forgotten(attempt, str(error)) from None


def _forgotten(attempt: TaskAttempt, how: str) -> DeliveryGuaranteeError:
    told = "" if attempt.transaction is not None else ", and look for duplicates of the last micro-batch"
    return attempt.refused(
        f"de-duplication was switched off, or a producer forgotten, while a task wrote: {how}. Switch it on{told}"
    )


def _selected(groups: RowGroups, ids: Ids, of_group: Ids, places: Ids) -> tuple[RowGroups, Ids]:
    """Returns the rows at some places of the groups, and their ids."""
    import numpy as np

    from spark_pulsar.wire.columns.hashes import RowGroups

    counts = np.bincount(of_group[places], minlength=len(groups))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    return RowGroups(groups.rows[places], offsets), ids[places]
