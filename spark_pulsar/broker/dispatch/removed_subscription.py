"""Dispatcher of subscriptions that were removed: it sends nothing and refers to none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .base import Dispatcher
from .limits.dispatch_limiter import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from spark_pulsar.broker.entities.consumer import Consumer

    from .base import EntryRange


class RemovedDispatcher(Dispatcher):
    """Takes the place of a dispatcher whose subscription is removed, which frees both: they refer to each other, and
    they may stay uncollected for days."""

    def __init__(self) -> None:
        self.turn_messages = self.turn_entries = self.turn_bytes = UNLIMITED
        self.stopping = False

    def rewind(self) -> None:
        """Does nothing."""

    def attach(self, consumer: Consumer) -> None:
        raise AssertionError("consumers do not join a subscription that was removed")

    def detach(self, consumer: Consumer) -> None:
        """Does nothing."""

    def dispatch(self) -> bool:
        return False

    def has_work(self) -> bool:
        return False

    def has_to_send(self, entries: int) -> bool:
        return False

    def redeliver(self, consumer: Consumer, ranges: Iterable[EntryRange] | None, epoch: int | None) -> None:
        """Does nothing."""

    def acks_aborted(self, ranges: Sequence[EntryRange]) -> None:
        """Does nothing."""

    def check(self) -> None:
        """Asserts nothing."""
