"""Trying again: the only place that does."""

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.model.errors import PulsarError

FIRST_PAUSE_MS: Final = 50
LONGEST_PAUSE_MS: Final = 3_000

Result = TypeVar("Result")


class Backoff:
    """Pauses that double, from FIRST_PAUSE_MS to LONGEST_PAUSE_MS, and never outlast the deadline."""

    def __init__(self) -> None:
        self._pause_ms = FIRST_PAUSE_MS

    def reset(self) -> None:
        """Something worked: begin with short pauses again."""
        self._pause_ms = FIRST_PAUSE_MS

    def pause(self, deadline: Deadline, cause: PulsarError, woken: threading.Event | None = None) -> None:
        """Wait before the next attempt, or raise the deadline's error (caused by `cause`) if it would come too late.

        Setting `woken` ends the pause early.
        """
        if deadline.left_ms() <= self._pause_ms:
            raise deadline.error(cause) from cause
        (woken or threading.Event()).wait(self._pause_ms / 1000)
        self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)


def with_retries(attempt: Callable[[], Result], deadline: Deadline) -> Result:
    """The result of `attempt`, called again with growing pauses while it fails with a retriable error.

    Raises an error that is not retriable as it is; OperationTimeout naming the last error when time is up.
    """
    backoff = Backoff()
    while True:
        try:
            return attempt()
        except PulsarError as error:
            if not error.retriable:
                raise
            backoff.pause(deadline, error)
