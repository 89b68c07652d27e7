"""Offset planning: the start of a query, the end of each micro-batch, and the commit. No Spark classes.

`OffsetPlanner` lives as long as one run of a query, in one process.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.connector.letters.delays import DelayedLetters
from spark_pulsar.connector.micro_batches.partition_ends import PartitionEnds
from spark_pulsar.connector.micro_batches.planned_batch import PlannedBatch, existing, has_news
from spark_pulsar.connector.micro_batches.polling import Polling, TriggerDelay
from spark_pulsar.connector.micro_batches.query_subscription import QuerySubscription
from spark_pulsar.connector.micro_batches.topic_continuity import Continuity, replaced_text
from spark_pulsar.connector.offsets.endpoints import end_positions, end_positions_of_each, starting_positions
from spark_pulsar.connector.offsets.source_offset import SourceOffset, check_known_start, recorded_start
from spark_pulsar.connector.offsets.subscription_start import cursor_positions, subscribe
from spark_pulsar.connector.options.options import Options
from spark_pulsar.connector.options.timeouts import naming
from spark_pulsar.connector.planning.data_loss import report_losses
from spark_pulsar.connector.planning.extents import measured_extents
from spark_pulsar.connector.planning.first_entries import first_entries, named_starts_gone, passed_over
from spark_pulsar.connector.planning.pruning import KeyPruning
from spark_pulsar.connector.planning.ranges import TopicRange, plan, shrunken
from spark_pulsar.connector.planning.sharing import shared, sharing_tasks
from spark_pulsar.connector.planning.splitting import cut_points, may_be_cut, parts_of
from spark_pulsar.connector.planning.topic_partitions import check_found, find_partitions, when_they_exist
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.progress.lag import Lag
from spark_pulsar.connector.read_limits.admission import MOST_FOLLOWED, Limits, counted_extents
from spark_pulsar.model.errors import TopicNotFound

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_pulsar.client.reading.attached_consumers import InitialPosition
    from spark_pulsar.connector.micro_batches.small_batches import SmallBatches
    from spark_pulsar.connector.read_limits.lookahead import LookAhead

LOG: Final = logging.getLogger("spark_pulsar")

_OPERATION: Final = "operationTimeoutMs"
_UNKNOWN_LOSS: Final = (
    "%s: the query had read all that was known, up to %s; that ledger is gone now, and the first entry after it is %s. "
    "What was published and removed while the query did not run is not known; a subscriptionName would have held it"
)
_FOLLOW_MS: Final = 1_000
"""Time to attach the readers that receive new messages; a slower broker gets requests instead."""
_PAUSE_MS: Final = 100
"""Longest pause between polls over many partitions where the broker does not send new messages."""


class OffsetPlanner:
    """Offsets of one streaming query, in the order of calls that Spark makes.

    With `small_batches` their rows are read here; without, by tasks always.
    """

    def __init__(self, client: PulsarClient, options: Options, small_batches: SmallBatches | None = None) -> None:
        self._client = client
        self._options = options
        self._small_batches = small_batches
        self._polling = Polling()
        self._partition_ends = PartitionEnds(client)
        self._delay = TriggerDelay(options.max_trigger_delay_ms)
        self._letters = DelayedLetters(client, frozenset(options.retry_letter_topics), options.operation_timeout_ms)
        self._pruning = KeyPruning(client, options)
        self._at_hand: Mapping[str, ReadPosition] | None = None
        """The end of the small micro-batch that was planned last."""
        self._look_ahead: LookAhead | None = None
        self._initial: SourceOffset | None = None
        self._frozen = False
        self._target: dict[str, ReadPosition] | None = None
        self._newest: Mapping[str, ReadPosition] = {}
        self._due: Mapping[str, ReadPosition] = {}
        self._lag = Lag()
        self._planned: Mapping[str, ReadPosition] = {}
        self._subscription = QuerySubscription(client, options.subscription_name)
        self._continuity = Continuity(client, options.operation_timeout_ms, self._subscription)
        self._disowned: dict[str, ReadPosition] = {}
        """Positions of the last start that are not of the topics that are there now: nothing is acknowledged there."""
        self._unproved: set[str] | None = None
        """Partitions of the first offset of this run, from the checkpoint, as long as nothing of them was planned."""
        self._before_waiting: dict[str, ReadPosition] | None = None

    @naming(_OPERATION)
    def initial(self) -> SourceOffset:
        """Returns the start of a new query; the same answer however often Spark calls in one run (OFFSET-12)."""
        if self._initial is None:
            self._initial = when_they_exist(self._options, self._begin, self._begin_waiting)
        return self._initial

    def _begin(self) -> SourceOffset:
        options = self._options
        is_latest = options.is_from_latest
        topics = find_partitions(self._client, options)
        initial: InitialPosition = "latest" if is_latest and self._before_waiting is None else "earliest"
        if options.starts_at_cursor:
            positions = cursor_positions(self._client, topics, options, initial)
        else:
            # Made before the end is requested, so that the cursor is never ahead of the query.
            subscribe(self._client, topics, options, initial)
            positions = starting_positions(self._client, topics, options, "latest")
            if is_latest and self._before_waiting is not None:
                positions = {topic: self._before_waiting.get(topic, EARLIEST) for topic in topics}
        self._subscription.made_on(topics)
        return SourceOffset(positions, fresh=True, partition_counts=self._pruning.partition_counts(topics, {}))

    def _begin_waiting(self) -> None:
        """Notes where the topics that exist end, so that nothing which comes while others are waited for is passed."""
        topics = find_partitions(self._client, self._options, may_lack=True)
        self._before_waiting = end_positions_of_each(self._client, topics)

    @naming(_OPERATION)
    def freeze(self) -> None:
        """Fixes the end of the whole run at the present end of each partition (Trigger.AvailableNow) (READ-1)."""
        self._frozen = True
        self._letters.freeze()
        with contextlib.suppress(TopicNotFound):
            # Only `latest` knows whether the query has read the missing topic, so that it vanished.
            self._target = end_positions(self._client, find_partitions(self._client, self._options))

    @naming(_OPERATION)
    def latest(
        self,
        start: SourceOffset,
        max_messages: int | None = None,
        max_bytes: int | None = None,
        min_messages: int | None = None,
    ) -> SourceOffset:
        """Plans the end of the next micro-batch; `start` itself (equal text) if there is nothing new, or not enough.

        What lies before `start` is committed, so the subscription's cursor, if there is one, is moved there. Fewer than
        `min_messages` are held back for `maxTriggerDelay`, but not at the end of a run with Trigger.AvailableNow.
        Raises DataLossError if partitions of `start` are gone, or hold other messages, and `failOnDataLoss` is true.
        """
        self._polling.began()
        if self._look_ahead is not None:
            self._look_ahead.discard_news()
        batch = self._observe(start)
        if min_messages is not None and self._holds_back(batch, min_messages):
            self._newest, self._planned = batch.newest, batch.begins
            self._await_news(batch.begins)
            return start
        limits = Limits(max_messages, max_bytes)
        is_limited = any(limit is not None for limit in limits)
        if is_limited:
            self._limit(batch, limits)
        self._note_unread(batch)
        self._newest, self._planned = {**batch.newest, **batch.passed}, batch.positions
        if batch.is_empty:
            self._await_news(batch.end)
            return start
        planned = self._offset_of(batch)
        planned = replace(planned, cuts=self._cuts(batch.start, planned, batch.begins if is_limited else None))
        return replace(planned, sharing_tasks=self._sharing_tasks(batch.start, planned))

    def _sharing_tasks(self, start: SourceOffset, planned: SourceOffset) -> int:
        """Returns the number of tasks that share the small ranges of the next micro-batch; 0: none do (READ-48)."""
        if planned.cuts or planned.one_task or not self._options.small_batch_max_messages:
            return 0
        ranges = self._pruning.ranges(plan(start, planned).ranges, planned.partition_counts)
        return sharing_tasks(ranges, self._options.split)

    def _observe(self, committed: SourceOffset) -> PlannedBatch:
        """Begins a micro-batch that ends at the present ends of all partitions, also of those that are new (OFFSET-11),
        as far as letters are due (LETTER-3). Reports data loss, and moves the subscription's cursor to its start."""
        ends = self._ends(committed)
        start = self._continued(committed, ends)
        self._report_losses(plan(start, SourceOffset(ends)).losses)
        counts = self._pruning.partition_counts(ends, start.partition_counts)
        batch = PlannedBatch(committed, start, *self._pruning.split(ends, counts), counts)
        self._acknowledge_start(committed, ends, batch.replaced)
        self._client.discard(self._newest.keys() - ends.keys())
        self._subscription.follow(ends)
        begins = batch.begins
        if self._look_ahead is not None:
            self._look_ahead.remove(committed.positions.keys() - begins.keys())
        self._due = batch.end = self._letters.due_ends(begins, batch.newest)
        return batch

    def _limit(self, batch: PlannedBatch, limits: Limits) -> None:
        """Moves the end back to the limits of a micro-batch."""
        batch.end = self._open_look_ahead().gathering(batch.end).end_within(batch.begins, limits)
        batch.newest = self._without_vanished(batch.start, batch.newest, batch.end)

    def _note_unread(self, batch: PlannedBatch) -> None:
        """Moves the end of partitions that are not read to their end to the next entry, and notes their present end."""
        if batch.end == batch.newest:
            return
        following = self._open_look_ahead().next_entries(batch.end, batch.newest)
        exact = _exact(following, batch.begins, batch.end)
        batch.end = {**batch.end, **exact}
        batch.unread = {topic: batch.newest[topic] for topic in sorted(exact)}

    def _offset_of(self, batch: PlannedBatch) -> SourceOffset:
        """Returns the offset at the end of a micro-batch, with what its replay and the next start need."""
        start, positions = batch.start, batch.positions
        one_task = self._is_small(start, batch.end)
        first = self._first_entries(start, batch.end)
        target = self._target
        is_last = target is not None and all(positions.get(topic, EARLIEST) >= at for topic, at in target.items())
        seen = self._continuity.evidence(
            start, batch.begins, batch.end, batch.unread, self._look_ahead, is_last=is_last
        )
        return SourceOffset(
            positions,
            start.positions if start.fresh else None,
            newest=batch.unread,
            first=first,
            one_task=one_task,
            partition_counts=batch.partition_counts,
            seen=seen,
            replaced=batch.replaced,
            subscription=self._subscription.held_on(positions),
        )

    def _continued(self, start: SourceOffset, newest: dict[str, ReadPosition]) -> SourceOffset:
        """Returns `start` without the partitions that hold other messages than those that were read, which is reported:
        they are read from their start (OFFSET-18). Those that are empty keep their position in `newest`."""
        checked = self._continuity.check(start, newest)
        report_losses(checked.losses, fail=self._options.fail_on_data_loss, to="read what is there", note="; read anew")
        for topic, position in start.positions.items():
            if newest.get(topic) == EARLIEST:  # nothing left in a topic that was read to its end is no loss
                newest[topic] = position
        if not checked.replaced:
            return start
        kept = start.positions.keys() - checked.replaced
        return replace(
            start,
            positions={topic: at for topic, at in start.positions.items() if topic in kept},
            newest={topic: at for topic, at in start.newest.items() if topic in kept},
            seen={topic: entry for topic, entry in start.seen.items() if topic in kept},
        )

    def _acknowledge_start(
        self, start: SourceOffset, newest: Mapping[str, ReadPosition], replaced: Collection[str]
    ) -> None:
        """Moves the subscription's cursor to a start that is committed, but for topics that were exchanged."""
        self._disowned = {
            topic: at for topic, at in start.positions.items() if topic in replaced or newest.get(topic, EARLIEST) < at
        }
        if not start.fresh:
            self._subscription.acknowledge({t: at for t, at in start.positions.items() if t not in self._disowned})

    def _holds_back(self, batch: PlannedBatch, min_messages: int) -> bool:
        """Returns whether there is too little for a micro-batch, and time to wait for more.

        The offset names partitions that vanished or were replaced at once, and the positions of a new query.
        """
        if batch.replaced or self._delay.is_over() or self._frozen or batch.start.fresh:
            return False
        begins = batch.begins
        read, _ = self._pruning.split(batch.start.positions, batch.partition_counts)
        if begins.keys() != read.keys() or not has_news(begins, batch.end):
            return False
        if not self._open_look_ahead().gathering(batch.end).has_at_least(begins, min_messages):
            return True
        self._delay.begin()
        return False

    def _first_entries(self, start: SourceOffset, end: Mapping[str, ReadPosition]) -> dict[str, ReadPosition]:
        """Returns the first entries of the next micro-batch's ranges, where `start` does not say them."""
        if self._unproved is None:
            self._unproved = set() if start.fresh else set(start.positions)
        ranges = plan(start, SourceOffset(end)).ranges
        first = first_entries(self._client, ranges, self._options.operation_timeout_ms)
        if start.fresh:
            self._report_losses(named_starts_gone(self._client, self._options, ranges, first))
        unproved = [work for work in ranges if work.topic in self._unproved]
        for topic, at in passed_over(self._client, unproved, first).items():
            LOG.warning(_UNKNOWN_LOSS, topic, start.positions[topic], at)
        self._unproved.difference_update(work.topic for work in ranges)
        return first

    def _cuts(
        self, start: SourceOffset, planned: SourceOffset, counted_from: Mapping[str, ReadPosition] | None
    ) -> dict[str, tuple[ReadPosition, ...]]:
        """Returns where the ranges of the next micro-batch are cut for several tasks each: all counted, or none
        (READ-18)."""
        split = self._options.split
        ranges = self._pruning.ranges(plan(start, planned).ranges, planned.partition_counts)
        if not may_be_cut(ranges, split) or self._at_hand is not None:
            return {}
        if counted_from is None:
            timeout_ms, in_messages = self._options.operation_timeout_ms, split.max_records is not None
            extents = measured_extents(self._client, ranges, timeout_ms, in_messages=in_messages)
        else:
            look_ahead = self._open_look_ahead()
            extents = {
                work.topic: counted_extents(
                    look_ahead.partition(work.topic).counted(counted_from.get(work.topic, EARLIEST), work.end)
                )
                for work in ranges
            }
        return cut_points(ranges, extents, split)

    def _await_news(self, positions: Mapping[str, ReadPosition]) -> None:
        """Nothing is new: waits for a while until the broker sends something, if nothing else waits for the answer
        (READ-11, READ-38)."""
        of_many = len(positions) > MOST_FOLLOWED
        # Letters and messages that are held back come to be due with time.
        by_time = bool(self._options.retry_letter_topics) or self._options.min_messages_per_trigger is not None
        wait_ms = 0 if self._frozen else self._polling.wait_ms(of_many=of_many and not by_time)
        if of_many:  # messages that were there already, and held back, are no news
            positions = {topic: self._newest.get(topic, at) for topic, at in positions.items()}
            if self._polling.is_idle and not self._frozen:
                watched = self._partition_ends.watch(positions)
                self._partition_ends.await_news(wait_ms if watched else min(wait_ms, _PAUSE_MS))
        elif wait_ms and self._open_look_ahead().follow(positions, _FOLLOW_MS):
            self._open_look_ahead().await_news(wait_ms)
        self._polling.answered()

    def _is_small(self, start: SourceOffset, end: Mapping[str, ReadPosition]) -> bool:
        """Returns whether one task shall read several partitions, whose messages are few and kept."""
        self._at_hand = None
        begins = existing(start, end)
        changed = sum(1 for topic, at in end.items() if begins.get(topic, EARLIEST) < at)
        small = self._small_batches if changed and len(end) <= MOST_FOLLOWED else None
        if small is not None and small.is_small(self._open_look_ahead(), begins, end):
            self._at_hand = end
        return changed > 1 and self._at_hand is not None

    def _without_vanished(
        self, start: SourceOffset, newest: Mapping[str, ReadPosition], end: Mapping[str, ReadPosition]
    ) -> dict[str, ReadPosition]:
        """`newest` without the partitions that were there when it was requested, and not any more when `end` was."""
        vanished = newest.keys() - end.keys()
        read = SourceOffset({topic: at for topic, at in start.positions.items() if topic in vanished})
        self._report_losses(plan(read, SourceOffset({})).losses)
        for topic in vanished:
            if self._target is not None:
                self._target.pop(topic, None)
        return {topic: at for topic, at in newest.items() if topic in end}

    def _ends(self, start: SourceOffset) -> dict[str, ReadPosition]:
        if self._target is None:
            # A topic whose loss was accepted is no longer known, and may come back.
            options = self._options
            known = frozenset(start.positions)
            may_lack = not options.fail_on_data_loss or options.waiting_for_non_existed_topic
            topics = find_partitions(self._client, options, known=known, may_lack=may_lack)
            ends = self._partition_ends.request(topics)
            if not may_lack and options.topics_pattern is None:
                check_found(topics, known.union(ends), options)
            if self._frozen:
                self._target = dict(ends)
        else:
            if start.fresh:  # requested after the end was frozen, so it may be younger, and know more partitions
                for topic, position in start.positions.items():
                    self._target[topic] = max(self._target.get(topic, EARLIEST), position)
            ends = dict(self._target)
        self._report_losses(shrunken(start, ends))
        return ends

    def _open_look_ahead(self) -> LookAhead:
        if self._look_ahead is None:
            # The kernels cost a second of start-up and 100 MB: a batch read plans without them.
            from spark_pulsar.connector.read_limits.lookahead import LookAhead

            self._look_ahead = LookAhead(
                self._client, self._options.operation_timeout_ms, keeps_entries=self._small_batches is not None
            )
        return self._look_ahead

    def report(self) -> dict[str, Any] | None:
        """Returns the newest positions for the progress event, and the lag of the planned end (see `progress.lag`)."""
        if not self._newest:
            return None
        lag = self._lag.to_json(self._planned, self._due, self._newest, self._look_ahead, self._letters)
        name = self._options.subscription_name
        by = {} if name is None else {"subscription": name}
        return {**SourceOffset(self._newest).to_json(), **by, "lag": lag}

    def ranges(self, start: SourceOffset, end: SourceOffset) -> list[TopicRange]:
        """Returns the ranges that the tasks of a micro-batch read: they depend on the two offsets alone, so a replay
        reads the same."""
        check_known_start(start, end, is_latest=self._options.is_from_latest)
        planned = plan(recorded_start(start, end), end)
        report_losses(planned.losses, fail=False)
        return self._pruning.ranges(planned.ranges, end.partition_counts)

    def tasks(self, start: SourceOffset, end: SourceOffset) -> list[tuple[TopicRange, ...]]:
        """Returns the ranges of each task, by the two offsets alone: of all in one task, if `end` says so."""
        ranges = self.ranges(start, end)
        if ranges and not self._continuity.is_begun:
            self._check_replay(start, end)
        self._polling.planned(is_empty=not ranges)
        if end.one_task and ranges:
            return [tuple(ranges)]
        if end.sharing_tasks:
            return shared(ranges, end.sharing_tasks)
        return [(part,) for work in ranges for part in parts_of(work, end.cuts.get(work.topic, ()))]

    @naming(_OPERATION)
    def _check_replay(self, start: SourceOffset, end: SourceOffset) -> None:
        """Reports the partitions of a micro-batch that was planned by an earlier run, and that are others now
        (OFFSET-19). The next micro-batch begins anew there."""
        seen = {**start.seen, **end.seen}
        ends = end_positions_of_each(self._client, seen)
        others = self._continuity.others({topic: seen[topic] for topic in ends}, ends)
        losses = [replaced_text(topic, end.positions[topic], seen[topic], others[topic]) for topic in sorted(others)]
        self._report_losses(losses)

    def rows(self, ranges: Sequence[TopicRange], end: SourceOffset) -> list[pa.RecordBatch] | None:
        """Returns the rows of the small micro-batch that ends at `end`, None if they are not kept."""
        read, _ = self._pruning.split(end.positions, end.partition_counts)
        if self._small_batches is None or self._look_ahead is None or read != self._at_hand:
            return None
        return self._small_batches.rows(self._look_ahead, ranges)

    def commit(self, end: SourceOffset) -> None:
        """Everything before `end` is done: moves the subscription's cursor. Never raises for what the broker says."""
        if self._continuity.is_begun:
            done = {topic: at for topic, at in end.positions.items() if self._disowned.get(topic) != at}
            self._subscription.acknowledge(done)

    def close(self) -> None:
        """Closes the readers that count ahead."""
        if self._look_ahead is not None:
            self._look_ahead.close()

    def _report_losses(self, losses: Sequence[str]) -> None:
        report_losses(losses, fail=self._options.fail_on_data_loss)


def _exact(
    following: Mapping[str, ReadPosition], begins: Mapping[str, ReadPosition], end: Mapping[str, ReadPosition]
) -> dict[str, ReadPosition]:
    """Leaves out partitions of which nothing is read: an end that moves to the next entry would be a range of none."""
    return {
        topic: at for topic, at in following.items() if at == end[topic] or end[topic] != begins.get(topic, EARLIEST)
    }
