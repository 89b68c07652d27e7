"""The thread that compacts: takes compactions from the core, gives back blocks one at a time."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

from spark_pulsar.broker.turn.events import CompactionEnded, CompactionFailed
from spark_pulsar.ledger.storage import StorageError
from spark_pulsar.model.errors import CorruptMessage

from .compactor import Compactor, Stopped

if TYPE_CHECKING:
    from spark_pulsar.broker.turn.effects import CompactTopic
    from spark_pulsar.broker.turn.events import Event

    from .compactor import Read

_LOG = logging.getLogger("spark_pulsar.server")


class _Order:
    """One compaction, and the signals to go on and to stop."""

    def __init__(self, task: CompactTopic) -> None:
        self.task = task
        self.may_go_on = threading.Semaphore(0)
        self.stopped = False

    def stop(self) -> None:
        self.stopped = True
        self.may_go_on.release()


class Compactions:
    """Compactions, one after the other. `notify` runs in the thread (CMP-C6)."""

    def __init__(self, read: Read, notify: Callable[[Event], None]) -> None:
        self._read = read
        self._notify = notify
        self._orders: dict[int, _Order] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="compact")

    def start(self, task: CompactTopic) -> None:
        """Begins a compaction when those before it are done."""
        order = self._orders[task.token] = _Order(task)
        self._thread.submit(self._run, order)

    def go_on(self, token: int) -> None:
        """Lets a compaction make its next block: the last one is on disk."""
        order = self._orders.get(token)
        if order is not None:
            order.may_go_on.release()

    def stop(self, token: int) -> None:
        """Stops a compaction, whose rest is not wanted."""
        order = self._orders.pop(token, None)
        if order is not None:
            order.stop()

    def close(self) -> None:
        """Stops all compactions."""
        for token in list(self._orders):
            self.stop(token)
        self._thread.shutdown(wait=False)

    def _run(self, order: _Order) -> None:
        token = order.task.token
        compactor = Compactor(order.task, self._read, lambda: order.stopped)
        try:
            with closing(compactor.blocks()) as blocks:
                for block in blocks:
                    if order.stopped:
                        return
                    self._notify(block)
                    order.may_go_on.acquire()
                    if order.stopped:
                        return
        except Stopped:
            return
        except (StorageError, OSError, sqlite3.Error, CorruptMessage) as error:
            self._fail(order, error, str(error))
        except Exception as error:  # noqa: BLE001  # whatever it was, the topic stays as it is
            self._fail(order, error, f"{type(error).__name__}: {error}")
        else:
            self._notify(CompactionEnded(token, compactor.removed))
        self._orders.pop(token, None)

    def _fail(self, order: _Order, error: Exception, reason: str) -> None:
        if not order.stopped:
            _LOG.error("compaction failed: %s", reason, exc_info=error)
            self._notify(CompactionFailed(order.task.token, reason))
