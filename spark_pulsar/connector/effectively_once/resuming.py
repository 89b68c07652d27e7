"""Resuming: rows that an earlier attempt of the task has written are left out, once the broker proves that it has them
(ONCE-8).

A producer has one entry in flight, so that a refused entry has none behind it that is stored: its last sequence id,
which the broker returns when the producer is created, stands for all rows before it (ONCE-9). That is proof of three
things only together with an answer to a message, and with the rows:

- A producer that is known has written up to that id. The last of those rows is sent again, and answered as a duplicate
  when it, and so all before, is on disk: an Apache Pulsar returns ids whose messages are still being written.
- The id holds count and checksum of the rows (`checked_sequence_ids`). The task computes both anew: where they are
  others, the rows are not those that were written, and the task ends with an error (ONCE-10).
- An unknown producer is new, or the topic does not de-duplicate; the broker's answer is the same. The task sends the
  first row and creates the producer again: a topic that de-duplicates knows its id.

Rows that are sent again and new ones are never in one batch, which an Apache Pulsar would drop as a whole (DED-13).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import OperationTimeout, SequenceIdForgotten
from spark_pulsar.client.publishing.publisher import Publisher
from spark_pulsar.connector.effectively_once.attempt import TaskAttempt
from spark_pulsar.connector.effectively_once.checked_sequence_ids import RunningIds, counts_of
from spark_pulsar.connector.effectively_once.named_sequence_ids import NamedIds
from spark_pulsar.connector.effectively_once.outcomes import TaskOutcome, TaskProducer
from spark_pulsar.connector.effectively_once.producer_roster import Roster
from spark_pulsar.connector.errors import DeliveryGuaranteeError
from spark_pulsar.connector.options.options import AT_LEAST_ONCE, Options
from spark_pulsar.model.errors import ProducerBusy
from spark_pulsar.model.names import TopicName

if TYPE_CHECKING:
    from spark_pulsar.connector.effectively_once.sequence_ids import Ids
    from spark_pulsar.wire.columns.key_hashes import RowGroups

EARLIER_ROWS_OF_A_BATCH: Final = 1 << 32
"""Sequence ids of one micro-batch in earlier versions of the connector, which kept a count of rows and no checksum."""


@dataclass(slots=True)
class Resuming:
    """Rows of one topic in one attempt of a task, and the proofs about its producers, by number of the partition
    (ONCE-1)."""

    attempt: TaskAttempt
    topic: str
    partitions: Sequence[str]
    outcome: TaskOutcome
    running: RunningIds = field(init=False)
    _named: NamedIds = field(init=False)
    _stored: dict[int, int] = field(init=False, default_factory=dict)
    """Rows of this micro-batch that are stored already, where there are any."""
    _proved: set[int] = field(init=False, default_factory=set)
    _sent_again: dict[int, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        if self.topic.startswith("non-persistent://"):
            raise self.attempt.refused(
                f"{self.topic} is non-persistent, and keeps nothing that duplicates could be found by; use a "
                f"persistent topic, or {AT_LEAST_ONCE}"
            )
        self.running = RunningIds(self.attempt.number, self.partitions)
        self._named = NamedIds(self.attempt, self.partitions)

    # ---- producers

    def open(self, client: PulsarClient, index: int, **settings: Any) -> Publisher:
        """Returns the task's producer on a partition, with one entry in flight (ONCE-4).

        An earlier attempt that still runs holds the name: it is waited for until it is gone, as long as an operation
        may take, so that two attempts never write side by side. OperationTimeout if it stays. Raises
        DeliveryGuaranteeError when the producer has written rows of a later micro-batch.
        """
        partition = self.partitions[index]
        name = self.attempt.producer_name(len(self.partitions))
        try:
            publisher = client.publisher(
                partition,
                name=name,
                max_pending_entries=1,
                deduplicated=True,
                transaction=self.attempt.transaction,
                **settings,
            )
        except OperationTimeout as error:
            if not isinstance(error.__cause__, ProducerBusy):
                raise
            why = f"{error.cause}: an earlier attempt of this task is still connected"
            raise OperationTimeout(error.what, error.where, error.timeout_ms, why) from error
        try:
            stored = self.attempt.check_known(partition, publisher.last_sequence_id)
        except DeliveryGuaranteeError:
            publisher.abort()
            raise
        if stored:
            self._stored[index] = stored
            self.outcome.has_resumed = True
        self.outcome.producers.append(TaskProducer(self.topic, len(self.partitions), index, self.attempt.task))
        return publisher

    def note_new(self, client: PulsarClient, options: Options, publishers: Mapping[int, Publisher]) -> None:
        """Notes producers of which the broker knows nothing in the roster of the query, before they write (ONCE-12).

        Raises DeliveryGuaranteeError when an earlier version of the connector has written rows of this micro-batch
        (ONCE-11).
        """
        attempt = self.attempt
        if attempt.transaction is not None or attempt.has_sequence_ids or not attempt.is_of_query:
            return
        new = [index for index, publisher in publishers.items() if publisher.last_sequence_id < 0]
        if not new:
            return
        count = len(self.partitions)
        Roster(client, options, attempt).note([TaskProducer(self.topic, count, index, attempt.task) for index in new])
        for index in new:
            name = attempt.named_producer(count)
            with client.publisher(self.partitions[index], name=name, deduplicated=True) as earlier:
                last = earlier.last_sequence_id
            if last > attempt.batch_id * EARLIER_ROWS_OF_A_BATCH:
                raise attempt.refused(
                    f"an earlier version of spark-pulsar has written rows of micro-batch {attempt.batch_id} to "
                    f"{self.partitions[index]}, and kept no checksum of them: run the query with that version until "
                    "the micro-batch is complete, or begin with a new checkpoint, which writes rows again"
                )

    # ---- rows

    def parts(
        self, groups: RowGroups, ids: Ids, publishers: Mapping[int, Publisher]
    ) -> Iterator[tuple[RowGroups, Ids]]:
        """Yields the rows to send, in their order, each part when the one before it is sent; rows that are written
        already are left out. Raises DeliveryGuaranteeError."""
        import numpy as np

        sizes = np.diff(groups.offsets)
        of_group = np.repeat(np.arange(len(groups)), sizes)
        last = np.array([publishers[at].last_sequence_id if at in publishers else -1 for at in range(len(groups))])
        if self.attempt.has_sequence_ids:
            self._named.check(groups, ids, last)
            is_written = ids <= last[of_group]
            # Ids grow in each group, so the rows that are written stand at its beginning.
            counts = np.bincount(of_group[is_written], minlength=len(groups))
            again, again_ids = (groups.offsets[:-1] + counts - 1)[counts > 0], ids
        else:
            is_written, again, again_ids = self._compared(ids, of_group, last)
        if len(again):
            yield _selected(groups, again_ids, of_group, again)
            for group in of_group[again].tolist():
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

    def _compared(self, ids: Ids, of_group: Ids, last: Ids) -> tuple[Any, Ids, Ids]:
        """Returns which rows are written, the places of the last of those on each partition, and ids with theirs as the
        broker knows them. Raises DeliveryGuaranteeError where the rows are others than those that were written."""
        import numpy as np

        if not self._stored:
            return np.zeros(len(ids), bool), ids[:0], ids
        stored = np.array([self._stored.get(group, 0) for group in range(len(last))])[of_group]
        counts = counts_of(ids)
        again = np.flatnonzero((counts == stored) & (stored > 0))
        known = ids.copy()
        known[again] = last[of_group[again]]
        differ = again[known[again] != ids[again]]
        if len(differ) and not self.attempt.is_order_vouched:
            partition, count = self.partitions[of_group[differ[0]]], int(stored[differ[0]])
            raise self.attempt.changed(
                f"{partition} has {count} rows that task {self.attempt.task} wrote when micro-batch "
                f"{self.attempt.batch_id} ran before, and its first {count} rows are others now, or in another order"
            )
        return counts <= stored, again, known

    def finish(self, publishers: Mapping[int, Publisher], open_one: Callable[[int], Publisher]) -> None:
        """Checks, once all rows are stored, that no more of them are: an earlier attempt may have had others. Raises
        DeliveryGuaranteeError."""
        attempt = self.attempt
        self.outcome.rows += self.running.rows
        self.outcome.content += self.running.content + self.running.rows * zlib.crc32(self.topic.encode())
        if attempt.has_sequence_ids:
            self._named.finish(self.outcome)
            return
        is_in_roster = attempt.is_of_query and attempt.transaction is None  # which the driver checks
        if attempt.attempt_number > 0 or (self._stored and not is_in_roster):
            for index in set(range(len(self.partitions))) - publishers.keys():
                open_one(index).close()
        for index, stored in self._stored.items():
            count = self.running.count(index)
            if count < stored:
                raise attempt.changed(
                    f"{self.partitions[index]} has {stored} rows that task {attempt.task} wrote when micro-batch "
                    f"{attempt.batch_id} ran before, and the task has {count} for it now"
                )

    def _check_duplicate(self, group: int, publisher: Publisher) -> None:
        """Waits until the broker has said that it has the row which was sent again."""
        self._sent_again[group] = self._sent_again.get(group, 0) + 1
        publisher.flush()
        if publisher.duplicates < self._sent_again[group]:
            raise _removed(
                self.attempt, f"{publisher.topic} has stored a row of {publisher.producer_name} a second time"
            )

    def _prove(self, group: int, publisher: Publisher) -> None:
        """Creates the producer again, now that it has written a row: a topic that de-duplicates knows of it
        (ONCE-2)."""
        try:
            publisher.attach_again()
        except SequenceIdForgotten:
            namespace = TopicName.parse(self.topic).namespace_name
            task, note = self.attempt.task, ""
            if self.attempt.transaction is None:
                note = f". The first row of task {task} is on the topic, for this shows only then; it is written again"
                note += " when the query goes on"
            raise self.attempt.refused(
                f"{publisher.topic} does not de-duplicate. Switch it on (for the namespace: pulsar-admin namespaces "
                f"set-deduplication --enable {namespace}), or use {AT_LEAST_ONCE}{note}"
            ) from None
        self._proved.add(group)


@contextmanager
def refusing_removed_producers(attempt: TaskAttempt | None) -> Iterator[None]:
    """Raises DeliveryGuaranteeError in here when the broker has lost what a producer has written."""
    try:
        yield
    except SequenceIdForgotten as error:
        if attempt is None:
            raise
        raise _removed(attempt, str(error)) from None


def _removed(attempt: TaskAttempt, how: str) -> DeliveryGuaranteeError:
    advice = "" if attempt.transaction is not None else ", and check for duplicates of the last micro-batch"
    return attempt.refused(
        f"de-duplication was switched off, or a producer removed, while a task wrote: {how}. Switch it on{advice}"
    )


def _selected(groups: RowGroups, ids: Ids, of_group: Ids, places: Ids) -> tuple[RowGroups, Ids]:
    """Returns the rows at some places of the groups, and their ids."""
    import numpy as np

    from spark_pulsar.wire.columns.key_hashes import RowGroups

    counts = np.bincount(of_group[places], minlength=len(groups))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    return RowGroups(groups.rows[places], offsets), ids[places]
