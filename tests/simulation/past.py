"""Pasts that a power loss may lead back to when the journal is not synced (journalSyncData=false): any whole part of
the writes, but none behind a sync."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_pulsar.ledger.records import Record
from spark_pulsar.ledger.state.apply import apply
from spark_pulsar.ledger.state.durable_state import DurableState
from tests.contract.histories import shared_picture as picture

from .account import Account, Posting


@dataclass(slots=True)
class Submit:
    """One submit to storage: its records, and what they and the clients' acks mean for the account."""

    records: Sequence[Record]
    postings: list[Posting] = field(default_factory=list)

    def settle(self, state: DurableState, account: Account) -> None:
        """Applies a submit that is on disk."""
        for record in self.records:
            apply(state, record)
        for posting in self.postings:
            account.post(posting)


class Past:
    """All submits that storage reported on disk, from the very beginning, and the starts in between."""

    def __init__(self) -> None:
        self._items: list[Submit | None] = []
        """None: a start."""
        self._firm = 0

    def add(self, submit: Submit) -> None:
        """Adds a submit that is on disk, or at least written."""
        self._items.append(submit)

    def note_start(self) -> None:
        """Notes a start: later submits belong to another run of the broker."""
        self._items.append(None)

    def make_firm(self) -> None:
        """No power loss may take anything away of what is there now."""
        self._firm = len(self._items)

    def go_back(self, found: dict[str, Any]) -> tuple[DurableState, Account] | None:
        """State and account after so much of it that they give the picture; the rest is forgotten. None when there is
        no such place."""
        state, account = DurableState(), Account()
        for number in range(len(self._items) + 1):
            if number >= self._firm and picture(state) == found:
                del self._items[number:]
                return state, account
            if number == len(self._items):
                break
            item = self._items[number]
            if item is None:
                state.finish_recovery()
            else:
                item.settle(state, account)
        return None
