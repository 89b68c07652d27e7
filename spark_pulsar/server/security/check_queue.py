"""Queue of checks of credentials that take long, fair by host (SEC-88).

A check of a password costs a tenth of a second on purpose, so that strangers who guess could keep owners out. Hosts
take turns, whatever one of them sends; those that have come in before are first, then those that nothing is known of,
then those whose last guesses were wrong. Every class gets some turns, so that no client waits for ever.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from enum import IntEnum
from typing import Final

from spark_pulsar.server.sockets import network_of

MAX_WAITING: Final = 1_000
"""Checks that may wait for a thread; beyond, the host of the last class that has most loses its newest one."""
MAX_WAITING_OF_HOST: Final = 100
"""Checks of one host that may wait; further ones are refused."""
MAX_HOSTS: Final = 10_000
"""Hosts whose outcomes are kept, of each kind; the oldest are dropped."""
FAILED_S: Final = 60.0
"""Time for which a host counts as one that guesses, after a wrong guess."""
_GUESSES_OF_KNOWN: Final = 5
"""Wrong guesses with which a host that has come in before counts as one that guesses."""
_TURNS: Final = (0, 0, 0, 1, 0, 0, 0, 2)
"""Class that is first in a turn."""


class Standing(IntEnum):
    """Classes of hosts, the first one first."""

    KNOWN = 0
    NEW = 1
    GUESSING = 2


class Check:
    """One check that waits: `run` in a thread, or `refuse` in its place."""

    __slots__ = ("host", "refuse", "run")

    def __init__(self, peer: str, run: Callable[[], None], refuse: Callable[[str], None]) -> None:
        """`peer`: text of the client's address."""
        self.host = network_of(peer.rpartition(":")[0])
        self.run = run
        self.refuse = refuse


class CheckQueue:
    """Checks that wait, by host. All methods may be called by any thread."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[Check]] = {}
        self._hosts: tuple[OrderedDict[str, None], ...] = tuple(OrderedDict() for _ in Standing)
        """Hosts that wait, by class, in the order of their turns."""
        self._count = 0
        self._turn = 0
        self._known: OrderedDict[str, None] = OrderedDict()
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """(time, number) of wrong guesses, the latest last."""
        self._is_closed = False

    def __len__(self) -> int:
        return self._count

    def put(self, check: Check) -> None:
        """Queues a check. It, or another one that gives it room, is refused when too many wait."""
        refused, reason = None, ""
        with self._changed:
            if len(self._waiting.get(check.host, ())) >= MAX_WAITING_OF_HOST:
                refused, reason = check, f"{MAX_WAITING_OF_HOST} authentications of {check.host} wait already"
            elif self._count >= MAX_WAITING:
                refused, reason = self._make_room(check), f"{MAX_WAITING} authentications wait already"
            if refused is not check:
                of_host = self._waiting.setdefault(check.host, deque())
                if not of_host:
                    self._hosts[self._standing(check.host)][check.host] = None
                of_host.append(check)
                self._count += 1
                self._changed.notify()
        if refused is not None:
            refused.refuse(reason)

    def cancel(self, check: Check) -> None:
        """Removes a check whose client is gone, if it still waits."""
        with self._changed:
            of_host = self._waiting.get(check.host)
            if of_host is not None and check in of_host:
                of_host.remove(check)
                self._removed(check.host)

    def next_check(self) -> Check | None:
        """Waits for a check and removes it from the queue, by the turns of hosts; None when the queue is closed."""
        with self._changed:
            while not self._count and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                return None
            first = self._hosts[_TURNS[self._turn]]
            self._turn = (self._turn + 1) % len(_TURNS)
            hosts = next(hosts for hosts in (first, *self._hosts) if hosts)
            host = next(iter(hosts))
            del hosts[host]
            check = self._waiting[host].popleft()
            if self._waiting[host]:
                self._hosts[self._standing(host)][host] = None  # behind the others
            self._removed(host)
            return check

    def done(self, check: Check, *, is_accepted: bool) -> None:
        """Notes the outcome of a check for the next turns of its host."""
        with self._changed:
            if is_accepted:
                self._known[check.host] = None
                self._known.move_to_end(check.host)
                if len(self._known) > MAX_HOSTS:
                    self._known.popitem(last=False)
            else:
                self._failed[check.host] = (self._now_s(), self._guesses(check.host) + 1)
                self._failed.move_to_end(check.host)
                if len(self._failed) > MAX_HOSTS:
                    self._failed.popitem(last=False)

    def close(self) -> None:
        """Ends `next_check`; drops the waiting checks."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _removed(self, host: str) -> None:
        """Counts a check of a host less; a host without any waits no more."""
        self._count -= 1
        if not self._waiting[host]:
            del self._waiting[host]
            for hosts in self._hosts:
                hosts.pop(host, None)

    def _guesses(self, host: str) -> int:
        since_s, guesses = self._failed.get(host, (0.0, 0))
        return guesses if self._now_s() - since_s < FAILED_S else 0

    def _standing(self, host: str) -> Standing:
        is_known = host in self._known
        if self._guesses(host) >= (_GUESSES_OF_KNOWN if is_known else 1):
            return Standing.GUESSING
        return Standing.KNOWN if is_known else Standing.NEW

    def _make_room(self, check: Check) -> Check:
        """Removes the newest check of the host that is served last and has most; returns the given one instead when its
        own host is no better."""
        standing = next(standing for standing in reversed(Standing) if self._hosts[standing])
        host = max(self._hosts[standing], key=lambda host: len(self._waiting[host]))
        own = self._standing(check.host)
        if (own, len(self._waiting.get(check.host, ())) + 1) >= (standing, len(self._waiting[host])):
            return check
        refused = self._waiting[host].pop()
        self._removed(host)
        return refused
