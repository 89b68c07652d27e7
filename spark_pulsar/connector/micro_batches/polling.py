"""Polling: how long a poll that found nothing new waits for news before it answers Spark.

Spark asks an idle query for its newest offset every 10 ms. A poll that waits for the broker to tell of a message, and
is woken by it at once, saves nearly all of that and delays nothing: but only while nothing else waits for the answer.

The first poll after a micro-batch, and each poll of a trigger with an interval, answers at once. Waits grow from poll
to poll. A poll that waited answers "nothing new" all the same, and Spark asks again after 10 ms: so the wait is not
counted as processing time of the micro-batch.
"""

from __future__ import annotations

from typing import Final

from spark_pulsar.client.clock import monotonic_ms

_FIRST_WAIT_MS: Final = 10
_LONGEST_WAIT_MS: Final = 250
_IDLE_LOOP_MS: Final = 100
"""Polls that follow each other faster than this are those of an idle query."""


class Polling:
    """The polls of one streaming query, in order."""

    def __init__(self) -> None:
        self._in_vain = 0
        self._answered_ms = 0
        self._follows_at_once = False
        self._driven_by_others = False

    def asked(self) -> None:
        """A poll begins. What the broker takes to answer it says nothing about the trigger."""
        self._follows_at_once = monotonic_ms() - self._answered_ms < _IDLE_LOOP_MS

    def wait_ms(self) -> int:
        """Returns how long this poll, which found nothing new, may wait."""
        self._in_vain += 1
        if self._in_vain == 1 or not self._follows_at_once or self._driven_by_others:
            return 0
        return min(_FIRST_WAIT_MS << min(self._in_vain - 2, 10), _LONGEST_WAIT_MS)

    def answered(self) -> None:
        """The poll is over."""
        self._answered_ms = monotonic_ms()

    def planned(self, is_empty: bool) -> None:
        """Spark runs a micro-batch, with nothing of this source if `is_empty`.

        One that does so although polls here have waited has other sources, or timers: nothing may be delayed then.
        """
        self._driven_by_others = self._driven_by_others or (is_empty and self._in_vain > 1)
        self._in_vain = 0
