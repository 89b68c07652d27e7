"""Sequence ids that rows name (ONCE-5): rows at or below the last id of a producer are left out, and counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_pulsar.connector.effectively_once.outcomes import SkippedIds, TaskOutcome

if TYPE_CHECKING:
    from spark_pulsar.connector.effectively_once.attempt import TaskAttempt
    from spark_pulsar.connector.effectively_once.sequence_ids import Ids
    from spark_pulsar.wire.columns.key_hashes import RowGroups


class NamedIds:
    """The named ids of one topic's rows in one attempt of a task.

    A task writes its rows in the order of their ids, so that what an earlier attempt has stored of a micro-batch is a
    beginning of them: the last id of the producer is then one of theirs. Where it is none, and there are ids below, the
    rows are not those that were written: they would be lost (ONCE-13).
    """

    def __init__(self, attempt: TaskAttempt, partitions: Sequence[str]) -> None:
        self._attempt = attempt
        self._partitions = partitions
        self._skipped: dict[int, SkippedIds] = {}
        self._last: dict[int, int] = {}

    def check(self, groups: RowGroups, ids: Ids, last: Ids) -> None:
        """Counts rows that are left out, before any of these is sent. Raises DeliveryGuaranteeError where they cannot
        have been written."""
        for group in range(len(groups)):
            own = ids[groups.offsets[group] : groups.offsets[group + 1]]
            if not len(own):
                continue
            known = int(last[group])
            self._last[group] = max(known, int(own[-1]))
            left_out = own[own <= known]
            if len(left_out):
                before = self._skipped.get(group)
                rows, least = (0, int(left_out[0])) if before is None else (before.rows, before.least)
                partition, most = self._partitions[group], int(left_out[-1])
                self._skipped[group] = SkippedIds(partition, rows + len(left_out), least, most, known)
            if len(left_out) < len(own):
                self._check_replay(group)

    def finish(self, outcome: TaskOutcome) -> None:
        """Reports the rows that were left out. Raises as `check`."""
        for group in self._skipped:
            self._check_replay(group)
        outcome.skipped += self._skipped.values()
        outcome.last_ids |= {self._partitions[group]: last for group, last in self._last.items()}

    def _check_replay(self, group: int) -> None:
        skipped = self._skipped.get(group)
        if skipped is None or not self._attempt.is_of_query or skipped.most == skipped.last_sequence_id:
            return
        raise self._attempt.refused(ids_do_not_grow(skipped))


def ids_do_not_grow(skipped: SkippedIds) -> str:
    """Returns the fault of rows that are left out, and no replay."""
    return (
        f"{skipped.rows} rows for {skipped.partition} have a __sequenceId from {skipped.least} to {skipped.most}, at "
        f"or below {skipped.last_sequence_id}, the last one that this task has written there, and are not those that "
        "it wrote: they would be lost. The ids that a task writes to a partition have to grow over all micro-batches"
    )
