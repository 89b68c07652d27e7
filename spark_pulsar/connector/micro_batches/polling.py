"""Polling: how long a poll that found nothing new waits for news before it answers Spark (READ-11, READ-38).

Spark requests the newest offset of an idle query every 10 ms. A poll that waits for the broker to send a message, and
is woken by it at once, saves nearly all of that and delays nothing: but only while nothing else waits for the answer.

A poll over many partitions costs so much that even a few a second are a load, so it waits longer: its own time many
times over. New messages arrive all the same; only new partitions, which no broker announces, are found that much later.

The first poll after a micro-batch, and each poll of a trigger with an interval, answers at once. Waits grow from poll
to poll. A poll that waited answers "nothing new" all the same, and Spark repeats the request after 10 ms: so the wait
does not count as processing time of the micro-batch.
"""

from __future__ import annotations

from typing import Final

from spark_pulsar.client.clock import monotonic_ms

_FIRST_WAIT_MS: Final = 10
_LONGEST_WAIT_MS: Final = 250
_MANY_LONGEST_WAIT_MS: Final = 2_000
_WAIT_OF_POLL: Final = 100
"""Time of a poll over many partitions that it waits: one in a hundred is spent on polls then."""
_IDLE_LOOP_MS: Final = 100
"""Polls that follow each other faster than this are those of an idle query."""


class Polling:
    """The polls of one streaming query, in order."""

    def __init__(self) -> None:
        self._in_vain = 0
        self._began_ms = self._answered_ms = 0
        self._follows_at_once = False
        self._driven_by_others = False

    def began(self) -> None:
        """Notes that a poll begins. The broker's time to answer says nothing about the trigger."""
        self._began_ms = monotonic_ms()
        self._follows_at_once = self._began_ms - self._answered_ms < _IDLE_LOOP_MS

    def wait_ms(self, *, of_many: bool = False) -> int:
        """Returns how long this poll, which found nothing new, may wait; longer where it was `of_many` partitions."""
        self._in_vain += 1
        if self._in_vain == 1 or not self._follows_at_once or self._driven_by_others:
            return 0
        longest_ms = _LONGEST_WAIT_MS
        if of_many:
            took_ms = monotonic_ms() - self._began_ms
            longest_ms = max(longest_ms, min(_WAIT_OF_POLL * took_ms, _MANY_LONGEST_WAIT_MS))
        return min(_FIRST_WAIT_MS << min(self._in_vain - 2, 10), longest_ms)

    @property
    def is_idle(self) -> bool:
        """True when this poll found nothing new, nor did the one before."""
        return self._in_vain > 1

    def answered(self) -> None:
        """The poll is over."""
        self._answered_ms = monotonic_ms()

    def planned(self, is_empty: bool) -> None:
        """Spark runs a micro-batch, with nothing of this source if `is_empty`.

        One that does so although polls here have waited has other sources, or timers: nothing may be delayed then.
        """
        self._driven_by_others = self._driven_by_others or (is_empty and self._in_vain > 1)
        self._in_vain = 0


class TriggerDelay:
    """Trigger delay of one run of a query: the longest time for which `minMessagesPerTrigger` holds back what there is
    (READ-17).

    As Spark's Kafka source counts it: from the last poll that was not held back, of which the first of a run is one.
    """

    def __init__(self, max_delay_ms: int) -> None:
        self._max_delay_ms = max_delay_ms
        self._begun_ms: int | None = None

    def is_over(self) -> bool:
        """Returns whether nothing may be held back any longer; then the time begins anew."""
        if self._begun_ms is None or monotonic_ms() - self._begun_ms >= self._max_delay_ms:
            self.begin()
            return True
        return False

    def begin(self) -> None:
        """Begins the time anew: a micro-batch is on its way."""
        self._begun_ms = monotonic_ms()
