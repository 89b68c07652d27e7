"""Pauses between attempts: everything that tries again paces itself by them, so that a broker that comes back costs
nothing but time (READ-9, W2)."""

import threading
from typing import Final

from spark_pulsar.client.connections.connection_log import warn_of_retry
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.model.errors import PulsarError

FIRST_PAUSE_MS: Final = 50
LONGEST_PAUSE_MS: Final = 3_000
LEAST_ATTEMPT_MS: Final = 20
"""Time below which an attempt would end for lack of it, with an error that hides the cause of those before."""


class Backoff:
    """Pauses that double, from FIRST_PAUSE_MS to LONGEST_PAUSE_MS, and never outlast the deadline."""

    def __init__(self) -> None:
        self._pause_ms = FIRST_PAUSE_MS

    def reset(self) -> None:
        """Something worked: begin with short pauses again."""
        self._pause_ms = FIRST_PAUSE_MS

    def pause(self, deadline: Deadline, cause: PulsarError, woken: threading.Event | None = None) -> None:
        """Waits before the next attempt, or raises the deadline's error (caused by `cause`) if it would come too late.

        Setting `woken` ends the pause early. The log reports a connection that could not be made (READ-35).
        """
        deadline.note(cause)
        if deadline.left_ms() < self._pause_ms + LEAST_ATTEMPT_MS:
            raise deadline.error()
        warn_of_retry(cause, deadline.left_ms())
        (woken or threading.Event()).wait(self.next_ms() / 1000)

    def next_ms(self) -> int:
        """Returns the next pause in ms, for callers that wait themselves."""
        pause_ms = self._pause_ms
        self._pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)
        return pause_ms
