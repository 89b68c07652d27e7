"""The end of a transaction on a topic, as its withheld entries, which no consumer gets (TX-11), and the marker show it
later (TX-22)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from spark_pulsar.model.errors import CorruptMessage
from spark_pulsar.wire.entries.entry_bytes import metadata_of

from .entries import COMMIT_MARKER

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.ledger.entries import EntryRun
    from spark_pulsar.model.positions.ids import TransactionId

MAX_ENTRIES: Final = 10_000
"""Newest withheld entries that are searched for the end of a transaction."""
_ENTRIES_A_READ: Final = 256
_BYTES_A_READ: Final = 1 << 20

Report = Callable[["bool | None"], None]
"""Takes whether the transaction was aborted; None when no entry shows it."""


def was_aborted(core: Core, topic: Topic, txn_id: TransactionId, done: Report) -> None:
    """Finds out whether an ended transaction was aborted on a topic; `done` gets it in a later turn, unless nothing
    was ever withheld there."""
    _Search(core, topic, txn_id, done).step()


class _Search:
    """Reads the withheld entries of a topic, those of the newest ledger first, until one is of the transaction."""

    def __init__(self, core: Core, topic: Topic, txn_id: TransactionId, done: Report) -> None:
        self._core = core
        self._topic = topic
        self._txn_id = txn_id
        self._done = done
        self._ledgers = topic.ledger.withheld.ledgers()
        self._ledger_id = -1
        self._ranges: list[tuple[int, int]] = []
        self._requested = (0, 0)
        self._left = MAX_ENTRIES

    def step(self) -> None:
        """Orders the next entries, or ends the search."""
        while not self._ranges and self._ledgers:
            self._ledger_id = self._ledgers.pop()
            self._ranges = list(self._topic.ledger.withheld.ranges_of(self._ledger_id))
        if not self._ranges or self._left <= 0:
            self._done(None)
            return
        first, end = self._ranges.pop()
        wanted = min(end - first, _ENTRIES_A_READ, self._left)
        if wanted < end - first:
            self._ranges.append((first, end - wanted))
            first = end - wanted
        self._left -= wanted
        self._requested = (first, first + wanted)
        self._core.read(self._ledger_id, first, wanted, _BYTES_A_READ, self._search)

    def _search(self, runs: list[EntryRun] | None) -> None:
        seen, end = self._requested
        for run in runs or ():
            if run.ledger_id != self._ledger_id:
                break  # the requested one is gone
            for entry_id in range(max(seen, run.first_entry_id), min(end, run.end_entry_id)):
                is_aborted = self._outcome_in(run.entry(entry_id))
                if is_aborted is not None:
                    self._done(is_aborted)
                    return
            seen = run.end_entry_id
        if self._requested[0] < seen < end:
            self._ranges.append((seen, end))  # these were too long for one read
            self._left += end - seen
        self.step()

    def _outcome_in(self, entry: bytes) -> bool | None:
        """Returns whether the transaction was aborted, if it is one of its entries."""
        try:
            metadata = metadata_of(entry, 0, len(entry))
        except CorruptMessage:
            return None
        if not (metadata.HasField("txnid_most_bits") and metadata.HasField("txnid_least_bits")):
            return None  # its producer named the transaction in the command alone
        if (metadata.txnid_most_bits, metadata.txnid_least_bits) != self._txn_id:
            return None
        return metadata.marker_type != COMMIT_MARKER
