"""Groups of records on their way to storage, which the journal's thread writes while the loop goes on, or waits
(DUR-2).

The loop waits for a quick disk when it has nothing else to do: another turn of it takes longer than the disk. That
needs a journal at rest, which it never is while small groups come more often than its thread makes them durable.
Meanwhile small groups are held until the thread is done, as they would wait in its queue; then they are written in one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from spark_pulsar.broker.turn.effects import AppendRecords
    from spark_pulsar.ledger.storage import Storage

HELD_BYTES: Final = 4 * 1024
"""Bytes of entries waiting for the disk above which nothing is held."""
HELD_RECORDS: Final = 40
"""Most records that are held. They may be schemas of 5 MB each, and all have to fit into one submit."""


class GroupSubmitter:
    """Submits an engine's groups to its storage, in order.

    `on_durable` is called in the loop, at the beginning of its turn, with the last group that is durable. `on_written`
    is called within `submit` or `go_on` when the loop waited for a group.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        storage: Storage,
        on_durable: Callable[[int], None],
        on_written: Callable[[int], None],
    ) -> None:
        self._loop = loop
        self._storage = storage
        self._on_durable = on_durable
        self._on_written = on_written
        self._handed_over = 0
        """The last group that the journal's thread has to make durable."""
        self._heard_of = 0
        """The last of these groups that is durable, as far as the loop knows."""
        self._durable = 0
        """The last of these groups that is durable, as the thread says it."""
        self._is_notified = False
        """The loop is about to check that."""
        self._held: AppendRecords | None = None
        self._closed = False

    def submit(self, group: AppendRecords, waiting_bytes: int, *, at_once: bool) -> None:
        """Has a group written, at once if the loop may wait for that. `waiting_bytes`: all entries that wait for the
        disk."""
        held = 0 if self._held is None else len(self._held.records)
        if waiting_bytes > HELD_BYTES or held + len(group.records) > HELD_RECORDS:
            self.hand_over()
            self._submit(group, at_once=at_once)
        elif self._held is not None:
            self._held.records += group.records
            self._held.group = group.group
        elif self._handed_over > self._heard_of and self._storage.is_quick:
            self._held = group
        else:
            self._submit(group, at_once=at_once)

    def go_on(self) -> None:
        """Writes the held group, if it need not wait any longer, when everything else of a turn is done."""
        if self._held is not None and self._handed_over <= self._heard_of:
            held, self._held = self._held, None
            self._submit(held, at_once=True)

    def hand_over(self) -> None:
        """Submits the held group."""
        if self._held is not None:
            held, self._held = self._held, None
            self._submit(held, at_once=False)

    def close(self) -> None:
        """Ends the calls of `on_durable`."""
        self._closed = True

    def _submit(self, group: AppendRecords, *, at_once: bool) -> None:
        if self._storage.submit(group.records, partial(self._notify, group.group), at_once=at_once):
            self._on_written(group.group)
        else:
            self._handed_over = group.group

    def _notify(self, group: int, _storage_group: int) -> None:
        """Notifies the loop of durable groups, once of all that one write made durable. Runs in the journal's thread,
        for rising groups."""
        self._durable = group
        if not self._is_notified and not self._closed:
            self._is_notified = True
            self._loop.call_soon_threadsafe(self._hear)

    def _hear(self) -> None:
        self._is_notified = False  # before the group is read: a later one gets a call of its own
        self._heard_of = self._durable
        self._on_durable(self._heard_of)
