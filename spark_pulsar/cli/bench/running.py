"""A measurement as it runs: workers in threads, a line a second, a summary at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_pulsar.cli.bench.meter import Meter, line_of, write_line
from spark_pulsar.cli.messages.connecting import failed, official_client
from spark_pulsar.cli.output.formats import Format, show

_INTERVAL_S: Final = 1.0
_JOIN_S: Final = 40.0
"""Longest wait for workers at the end; the client gives a message up after 30 s."""


@dataclass(frozen=True, slots=True)
class Length:
    """End of a measurement: after a number of messages or seconds; 0 = at Ctrl-C."""

    messages: int
    time_s: float


class Stop:
    """The end of a measurement, which workers check for."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.error: BaseException | None = None

    def __bool__(self) -> bool:
        return self._event.is_set()

    def set(self, error: BaseException | None = None) -> None:
        """Ends the measurement, for an error that is raised then if there is one."""
        self.error = self.error or error
        self._event.set()

    def wait(self, time_s: float) -> None:
        """Waits for the end, at most so long."""
        self._event.wait(max(0.0, time_s))


Worker = Callable[[Stop], None]


def run(
    kind: str, topic: str, meter: Meter, workers: Sequence[Worker], length: Length, output: Format | None, **about: Any
) -> None:
    """Runs workers until all have ended, time is up, or Ctrl-C; prints a line a second, then the summary. Raises the
    first error of a worker, and for messages that could not be stored."""
    stop = Stop()
    aside = output is not None
    threads = [threading.Thread(target=_guarded, args=(worker, stop), daemon=True) for worker in workers]
    client = f"pulsar-client {official_client().__version__} for Python"
    write_line(f"{kind} {topic} by {client}: figures are those of this client, too", aside=True)
    meter.start()
    began_s = time.monotonic()
    for thread in threads:
        thread.start()
    try:
        _watch(meter, threads, length, stop, began_s, aside)
    except KeyboardInterrupt:
        pass
    finally:
        stop.set()
        deadline_s = time.monotonic() + _JOIN_S
        for thread in threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
    meter.end_window()
    if stop.error is not None:
        raise stop.error
    _summarize(kind, topic, meter, output, client, about)
    if meter.failures:
        numbers = ", ".join(f"{number} ({name})" for name, number in meter.failures.items())
        raise failed(f"not sent: {numbers}")


def _watch(
    meter: Meter, threads: list[threading.Thread], length: Length, stop: Stop, began_s: float, aside: bool
) -> None:
    next_s = began_s + _INTERVAL_S
    end_s = began_s + length.time_s if length.time_s else None
    while any(thread.is_alive() for thread in threads) and not stop:
        now_s = time.monotonic()
        if end_s is not None and now_s >= end_s:
            return
        if now_s < next_s:
            # Short steps: a worker may end at any time.
            stop.wait(min(0.05, next_s - now_s, (end_s or next_s) - now_s))
            continue
        next_s += _INTERVAL_S
        window = meter.end_window()
        write_line(line_of(window, now_s - began_s, sum(meter.failures.values())), aside=aside)


def _guarded(worker: Worker, stop: Stop) -> None:
    try:
        worker(stop)
    except BaseException as error:  # noqa: BLE001 - raised by the main thread
        stop.set(error)


def _summarize(kind: str, topic: str, meter: Meter, output: Format | None, client: str, about: dict[str, Any]) -> None:
    total = meter.total
    lost = sum(meter.failures.values())
    if output is None:
        write_line(f"{total.messages} messages in {total.seconds:.2f} s", aside=False)
        write_line(line_of(total, total.seconds, lost), aside=False)
        return
    summary = {"kind": kind, "topic": topic, "client": client} | about | total.figures() | {"failed": lost}
    show(summary, output)
