"""Reads from storage, by threads, or by the loop where that does not wait: the core hears of them in a later turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.broker.turn.events import EntriesRead, Event, ReadFailed, SizesRead
from spark_pulsar.ledger.storage import StorageError

if TYPE_CHECKING:
    from spark_pulsar.broker.turn.effects import ReadEntries, ReadSizes
    from spark_pulsar.ledger.storage import Storage

_THREADS: Final = 2
_AT_ONCE_BYTES: Final = 2 << 20
"""Bytes that the loop itself reads: copied in a third of a millisecond, with all decoding in one at most."""
_LOG = logging.getLogger("spark_pulsar.server")


class Reads:
    """Reads of an engine from its storage.

    `happen` gets the entries, `on_trouble` the error of a failed read, `stop` an unexpected error; all three are called
    in the loop.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        storage: Storage,
        happen: Callable[[list[Event]], None],
        on_trouble: Callable[[str, Exception], None],
        stop: Callable[[BaseException], None],
    ) -> None:
        self._loop = loop
        self._storage = storage
        self._happen = happen
        self._on_trouble = on_trouble
        self._stop = stop
        self._closed = False
        self._has_read = False
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="read")

    def entries(self, effect: ReadEntries) -> None:
        """Reads entries: those in memory by the loop itself, since handing them to a thread and back takes as long, but
        once in a turn only."""
        what = effect.ledger_id, effect.entry_id, effect.max_entries
        runs = None
        if not self._has_read:
            runs = self._storage.read_at_once(*what, min(effect.max_bytes, _AT_ONCE_BYTES))
        if runs:
            self._has_read = True
            self._loop.call_soon(self._on_read_at_once, EntriesRead(effect.token, runs))
        else:
            self._begin(effect.token, self._storage.read, *what, effect.max_bytes)

    def sizes(self, effect: ReadSizes) -> None:
        """Reads the sizes of entries."""
        self._begin(effect.token, self._storage.sizes, effect.ledger_id, effect.first, effect.end)

    def close(self) -> None:
        """Ends all calls."""
        self._closed = True
        self._threads.shutdown(wait=False)

    def _begin(self, token: int, read: Callable[..., list[Any]], *what: int) -> None:
        self._threads.submit(read, *what).add_done_callback(partial(self._hand_over, token))

    def _hand_over(self, token: int, future: Future[list[Any]]) -> None:
        """Runs in the reading thread."""
        if not self._closed:
            self._loop.call_soon_threadsafe(self._on_read, token, future)

    def _on_read_at_once(self, event: EntriesRead) -> None:
        self._has_read = False
        self._happen([event])

    def _on_read(self, token: int, future: Future[list[Any]]) -> None:
        error = future.exception()
        if error is None:
            result = future.result()
            if not result:
                _LOG.warning(
                    "reading entries: storage has none where the core expects some; the core requests them again"
                )
            self._happen(
                [SizesRead(token, result) if result and type(result[0]) is int else EntriesRead(token, result)]
            )
        elif isinstance(error, StorageError | OSError):
            self._on_trouble("reading entries", error)
            self._happen([ReadFailed(token, str(error))])
        else:
            self._stop(error)
