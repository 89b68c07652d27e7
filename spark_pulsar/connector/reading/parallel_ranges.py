"""Ranges that several threads read, their record batches handed out one by one, within a bound of memory (TABLE-4)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

Range = TypeVar("Range")
Batch = TypeVar("Batch")

_WAITING_BATCHES: Final = 2
"""Record batches that wait for the caller, for each thread; one has at most 16 MB."""
_PAUSE_S: Final = 0.1
_DONE: Final = object()


def in_parallel(
    ranges: Sequence[Range], read: Callable[[Range], Iterator[Batch]], most_threads: int
) -> Iterator[Batch]:
    """Yields what `read` yields of each range, in order of each, from at most so many threads. An error of one is
    raised here, and ends the others; so does the end of the iteration."""
    threads = min(most_threads, len(ranges))
    if threads <= 1:
        for one in ranges:
            yield from read(one)
        return
    readers = _Readers(ranges, read, threads)
    try:
        yield from readers.batches()
    finally:
        readers.close()


class _Readers(Generic[Range, Batch]):
    """Threads, each of which reads one range after the other."""

    def __init__(self, ranges: Sequence[Range], read: Callable[[Range], Iterator[Batch]], threads: int) -> None:
        self._unread = iter(ranges)
        self._choosing = threading.Lock()
        self._read = read
        self._waiting: queue.Queue[Any] = queue.Queue(threads * _WAITING_BATCHES)
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name="spark-pulsar-read", daemon=True) for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def batches(self) -> Iterator[Batch]:
        """Yields batches as they come. Raises what a reader raises."""
        running = len(self._threads)
        while running:
            item = self._waiting.get()
            if item is _DONE:
                running -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item

    def close(self) -> None:
        """Ends the threads, whose readers on the broker are closed."""
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        try:
            while (one := self._next()) is not None:
                for batch in self._read(one):
                    if not self._put(batch):
                        return
            self._put(_DONE)
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            self._put(error)

    def _next(self) -> Range | None:
        with self._choosing:
            return next(self._unread, None)

    def _put(self, item: object) -> bool:
        while not self._is_over.is_set():
            try:
                self._waiting.put(item, timeout=_PAUSE_S)
                return True
            except queue.Full:
                continue
        return False
