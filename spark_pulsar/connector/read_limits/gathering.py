"""Gathering: counts ahead in all partitions, until `admission` can determine the end of a micro-batch (READ-16)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.connector.offsets.endpoints import end_positions_of_each
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.read_limits.admission import Counting, CountMore, Limits, Wanted, admit, has_at_least
from spark_pulsar.connector.read_limits.counting import NOTHING_AHEAD, PartitionLookAhead
from spark_pulsar.model.errors import TopicNotFound

_REQUEST_AFTER_MS: Final = 1_000
"""Wait of a micro-batch after which the driver requests, once, the ends of the partitions that are waited for."""
_COUNT_AGAIN_MS: Final = 1_000
"""Readers that are silent make sure now and then that they should be; see `Fetch`."""


class Gathering:
    """Counting for one micro-batch: all partitions at once, within one time-out."""

    def __init__(
        self,
        client: PulsarClient,
        partition: Callable[[str], PartitionLookAhead],
        arrived: threading.Event,
        end: Mapping[str, ReadPosition],
        timeout_ms: int,
    ) -> None:
        self._cut_short: set[str] = set()
        """Partitions whose end is gone from the broker, so that nothing more will come."""
        self._silent: set[str] = set()
        """Partitions that sent nothing in time."""
        self._client = client
        self._partition = partition
        self._arrived = arrived
        self._end = end
        url = client.config.service_url
        self._deadline = Deadline(timeout_ms, "waiting for the next entry", url)
        self._request_after = Deadline(min(timeout_ms // 2, _REQUEST_AFTER_MS), "waiting for the next entry", url)
        self._has_requested = False
        self._shorter: set[str] = set()
        self._cause: OperationTimeout | None = None

    def end_within(self, start: Mapping[str, ReadPosition], limits: Limits) -> dict[str, ReadPosition]:
        """Returns the end of the next micro-batch from `start` on, as `admit` decides.

        Partitions that only the end knows start at their beginning; partitions that are gone from the broker are not in
        the answer. All partitions together are waited for as long as one time-out. Raises OperationTimeout when there
        are messages, but none came in time.
        """
        position = {topic: start.get(topic, EARLIEST) for topic in self._end}
        while True:
            answer = admit(self._countings(position), limits)
            if not isinstance(answer, CountMore):
                break
            self._count(position, answer.wanted)
        unmoved = all(answer.get(topic) == start.get(topic, EARLIEST) for topic in self._end)
        if self._silent and unmoved:
            raise self._timeout()
        return answer

    def has_at_least(self, start: Mapping[str, ReadPosition], count: int) -> bool:
        """Returns whether there are `count` messages from `start` on (READ-17). What did not come in time is none."""
        position = {topic: start.get(topic, EARLIEST) for topic in self._end}
        while True:
            answer = has_at_least(self._countings(position), count)
            if not isinstance(answer, CountMore):
                return answer
            self._count(position, answer.wanted)

    def _countings(self, position: Mapping[str, ReadPosition]) -> dict[str, Counting]:
        return {topic: self._counting(topic, at) for topic, at in position.items()}

    def _counting(self, topic: str, start: ReadPosition) -> Counting:
        end = self._end[topic]
        if start >= end:
            return Counting(start, end, NOTHING_AHEAD, 0)
        partition = self._partition(topic)
        ahead = partition.counted(start, end)
        backlog = partition.backlog(start, end, ahead)
        return Counting(start, end, ahead, backlog, topic in self._silent, topic in self._cut_short)

    def _count(self, position: dict[str, ReadPosition], wanted: Mapping[str, Wanted]) -> None:
        """Counts ahead until every partition has the wanted amount, or cannot have it; drops the positions of deleted
        partitions."""
        gone: set[str] = set()
        # A broker that cannot be reached may take all the time: readers that need no request come first.
        waiting = sorted(wanted, key=lambda topic: (not self._partition(topic).is_attached, topic))
        while waiting:
            self._arrived.clear()
            waiting = [topic for topic in waiting if not self._count_in(topic, position[topic], wanted[topic], gone)]
            if self._deadline.passed:
                self._cut_short |= self._shorter & set(waiting)
                break
            if waiting and self._request_after.passed and not self._has_requested:
                self._request_ends(waiting)
            waiting = [topic for topic in waiting if topic not in self._cut_short]
            pause = self._deadline if self._has_requested else self._request_after
            if waiting:
                self._arrived.wait(min(pause.left_ms(), _COUNT_AGAIN_MS) / 1000)
        for topic in gone:
            del position[topic]
        for topic in wanted.keys() - gone:
            if self._partition(topic).counted(position[topic], self._end[topic]).lacks(wanted[topic]):
                self._silent.add(topic)

    def _count_in(self, topic: str, start: ReadPosition, wanted: Wanted, gone: set[str]) -> bool:
        try:
            return self._partition(topic).count(start, self._end[topic], wanted, self._deadline)
        except TopicNotFound:
            gone.add(topic)
            return True
        except OperationTimeout as error:
            self._cause = error
            return False

    def _request_ends(self, waiting: Collection[str]) -> None:
        """Requests the ends of the partitions that are still waited for, to find those where nothing can come any
        more."""
        self._has_requested = True
        try:
            ends = end_positions_of_each(self._client, waiting, self._deadline.left_ms())
        except OperationTimeout as error:
            self._cause = error
            return
        self._shorter = {topic for topic, at in ends.items() if at < self._end[topic]}
        self._cut_short |= {topic for topic in self._shorter if ends[topic] <= self._partition(topic).frontier}

    def _timeout(self) -> OperationTimeout:
        """Returns the error for a micro-batch without any message."""
        what = f"waiting for the next entry of {', '.join(sorted(self._silent))}"
        cause = "" if self._cause is None else str(self._cause)
        return OperationTimeout(what, self._deadline.where, self._deadline.timeout_ms, cause)
