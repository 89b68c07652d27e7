"""Checks of a whole micro-batch, which the driver makes before Spark takes it for complete (ONCE-12). Writes inside
foreachBatch have names of their own, by `producerName` (ONCE-6), also where a connection to a server names no
micro-batch (READ-45): see `attempt`.

The driver keeps, in its process, the last state of each query: the run, the number of the last micro-batch, and the
last `__sequenceId` of each task and partition behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.effectively_once.attempt import TaskAttempt
from spark_pulsar.connector.effectively_once.checked_sequence_ids import NUMBER_BITS, place_of
from spark_pulsar.connector.effectively_once.named_sequence_ids import ids_do_not_grow
from spark_pulsar.connector.effectively_once.outcomes import TaskOutcome, TaskProducer
from spark_pulsar.connector.effectively_once.producer_roster import Roster
from spark_pulsar.connector.options.options import Options
from spark_pulsar.model.errors import TopicNotFound

LOG: Final = logging.getLogger("spark_pulsar")
_THREADS: Final = 8


@dataclass(slots=True)
class _Seen:
    """Facts that the driver has seen of a query."""

    run_id: str | None
    batch_id: int
    last_ids: dict[tuple[str, int], int] = field(default_factory=dict)
    """Last `__sequenceId` by partition and task."""


_SEEN: Final[dict[tuple[str, str | None], _Seen]] = {}
"""Queries by the name of what writes, and the topic that the options name."""


def check_micro_batch(client: PulsarClient, options: Options, outcomes: Sequence[TaskOutcome]) -> None:
    """Checks that no other task has written rows under the number of a micro-batch, and that rows which were left out
    are no new ones (ONCE-13). Raises DeliveryGuaranteeError."""
    if not outcomes or not outcomes[0].attempt.is_of_query:
        return
    attempt = outcomes[0].attempt
    key = attempt.writer, options.topic
    seen = _SEEN.pop(key, None)
    goes_on = (
        seen is not None
        and attempt.run_id is not None
        and seen.run_id == attempt.run_id
        and seen.batch_id == attempt.batch_id - 1
    )
    if seen is None or not goes_on:
        seen = _Seen(attempt.run_id, attempt.batch_id)
    if attempt.has_sequence_ids:
        _check_skipped(outcomes, seen)
    elif not goes_on or any(outcome.has_resumed or outcome.attempt.attempt_number > 0 for outcome in outcomes):
        _check_roster(client, options, outcomes)
    seen.batch_id = attempt.batch_id
    for outcome in outcomes:
        for partition, last in outcome.last_ids.items():
            seen.last_ids[partition, outcome.attempt.task] = last
    _SEEN[key] = seen


def _check_skipped(outcomes: Sequence[TaskOutcome], seen: _Seen) -> None:
    """Raises for rows whose ids are not above those of the micro-batch before; warns where that is not known."""
    for outcome in outcomes:
        for skipped in outcome.skipped:
            before = seen.last_ids.get((skipped.partition, outcome.attempt.task))
            if before is not None and skipped.least <= before:
                raise outcome.attempt.refused(ids_do_not_grow(skipped))
            if before is None:
                LOG.warning(
                    "%d rows of micro-batch %d for %s, with __sequenceId %d to %d, are left out as written before: "
                    "that is right if the micro-batch runs again, else ids do not grow over micro-batches, and rows "
                    "are lost",
                    skipped.rows,
                    outcome.attempt.batch_id,
                    skipped.partition,
                    skipped.least,
                    skipped.most,
                )


def _check_roster(client: PulsarClient, options: Options, outcomes: Sequence[TaskOutcome]) -> None:
    """Raises when a producer that no task of the micro-batch has opened knows rows of it, or of a later one
    (ONCE-11)."""
    attempt = outcomes[0].attempt
    opened = {producer for outcome in outcomes for producer in outcome.producers}
    others = sorted(Roster(client, options, attempt).noted() - opened)
    if attempt.is_in_foreach_batch:  # another write of the micro-batch may have the same name, for another topic
        topics = {producer.topic for producer in opened} if options.topic is None else {options.topic}
        others = [producer for producer in others if producer.topic in topics]
    partitions = {topic: _partitions_of(client, topic) for topic in {producer.topic for producer in others}}
    others = [producer for producer in others if producer.partition < len(partitions[producer.topic])]

    def last_id(producer: TaskProducer) -> int:
        name = attempt.producer_name(producer.partition_count, producer.task)
        partition = partitions[producer.topic][producer.partition]
        with client.publisher(partition, name=name, deduplicated=True) as publisher:
            return publisher.last_sequence_id

    with ThreadPoolExecutor(min(_THREADS, len(others) or 1)) as pool:
        for producer, last in zip(others, pool.map(last_id, others), strict=True):
            _check_other(attempt, producer, last)


def _partitions_of(client: PulsarClient, topic: str) -> list[str]:
    """Returns the partitions of a topic, none where it is gone."""
    try:
        return client.partitions_of(topic)
    except TopicNotFound:
        return []


def _check_other(attempt: TaskAttempt, producer: TaskProducer, last_sequence_id: int) -> None:
    place, own = place_of(last_sequence_id), attempt.number % (1 << NUMBER_BITS)
    if last_sequence_id < 0 or place.number < own:
        return
    number = attempt.number - own + place.number
    raise attempt.refused(
        f"micro-batch {attempt.batch_id} was planned anew, or its tasks are others than when it ran before: "
        f"{place.rows} rows of micro-batch {number} are stored that task {producer.task} wrote to partition "
        f"{producer.partition} of {producer.topic}, and no task has these rows now. Rows of this micro-batch "
        "may be there twice. Restore the newest checkpoint, run it with as many tasks as before, or begin with a new "
        "one, which writes rows again"
    )
