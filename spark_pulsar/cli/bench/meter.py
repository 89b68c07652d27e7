"""Messages, bytes, latencies and failures of a measurement, of each second and of the whole."""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Final

from spark_pulsar.cli.bench.latencies import Latencies

_MB: Final = 1_000_000


@dataclass(slots=True)
class Window:
    """Sums of a stretch of time."""

    seconds: float = 0.0
    messages: int = 0
    size_bytes: int = 0
    latencies: Latencies = field(default_factory=Latencies)

    def figures(self) -> dict[str, Any]:
        """Returns rates and latencies by name."""
        seconds = self.seconds or 1.0
        figures: dict[str, Any] = {
            "seconds": round(self.seconds, 3),
            "messages": self.messages,
            "messages_per_s": round(self.messages / seconds, 1),
            "mb_per_s": round(self.size_bytes / _MB / seconds, 3),
        }
        return figures | ({"latency_ms": self.latencies.in_ms()} if self.latencies.count else {})


class Meter:
    """Counters that threads of the client and of producers or consumers feed.

    A queue keeps the messages of a second until it is over: cheaper, there, than a lock.
    """

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        self.total = Window()
        self._came: deque[tuple[int, int | None]] = deque()
        self._numbers = itertools.count(1)
        self._since_s = self._began_s = time.monotonic()

    def start(self) -> None:
        """Begins to count time."""
        self._since_s = self._began_s = time.monotonic()

    def add(self, size: int, latency_us: int | None) -> int:
        """Counts a message and returns its number."""
        self._came.append((size, latency_us))
        return next(self._numbers)

    def on_receipt(self, size: int, sent_ns: int, result: Any, _message_id: Any) -> None:
        """Counts a message of this size that was sent at this time."""
        if result.value == 0:
            self.add(size, (time.perf_counter_ns() - sent_ns) // 1000)
        else:
            self.failures[result.name] += 1

    def end_window(self) -> Window:
        """Ends a second, and returns its sums."""
        now_s = time.monotonic()
        came = [self._came.popleft() for _ in range(len(self._came))]
        window = Window(now_s - self._since_s, len(came), sum(size for size, _ in came))
        window.latencies.add(latency_us for _, latency_us in came if latency_us is not None)
        self._since_s = now_s
        total = self.total
        total.seconds = now_s - self._began_s
        total.messages += window.messages
        total.size_bytes += window.size_bytes
        total.latencies.merge(window.latencies)
        return window


def line_of(window: Window, at_s: float, failed: int) -> str:
    """Writes a window as a line."""
    figures = window.figures()
    words = [
        f"{at_s:6.0f} s",
        f"{figures['messages_per_s']:12,.0f} messages/s",
        f"{figures['mb_per_s']:10,.2f} MB/s",
    ]
    if "latency_ms" in figures:
        words.append("latency ms: " + "  ".join(f"{name} {value:.2f}" for name, value in figures["latency_ms"].items()))
    if failed:
        words.append(f"failed {failed}")
    return "  ".join(words)


def write_line(text: str, *, aside: bool) -> None:
    """Prints a line at once; `aside`: on standard error, where standard output is for the summary alone."""
    stream = sys.stderr if aside else sys.stdout
    stream.write(f"{text}\n")
    stream.flush()
