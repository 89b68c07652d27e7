"""Trigger delay: the longest time for which `minMessagesPerTrigger` holds back what there is.

As Spark's Kafka source counts it: from the last poll that was not held back, of which the first of a run is one.
"""

from __future__ import annotations

from spark_pulsar.client.clock import monotonic_ms


class TriggerDelay:
    """The timer of one run of a query."""

    def __init__(self, max_delay_ms: int) -> None:
        self._max_delay_ms = max_delay_ms
        self._begun_ms: int | None = None

    def is_over(self) -> bool:
        """Tells whether nothing may be held back any longer; then the time begins anew."""
        if self._begun_ms is None or monotonic_ms() - self._begun_ms >= self._max_delay_ms:
            self.begin()
            return True
        return False

    def begin(self) -> None:
        """Begins the time anew: a micro-batch is on its way."""
        self._begun_ms = monotonic_ms()
