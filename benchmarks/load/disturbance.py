"""Disturbances of a measurement: work that a broker has put off, the other broker, the host of a virtual machine."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from load import machine
from load.peers import Peer

SETTLE_S = 0.5
QUIET_SAMPLES = 3
MAX_SETTLE_S = 15.0
QUIET_SHARE = 0.2
"""Processor use below which a broker has ended the work of an earlier measurement: in three half seconds, since it may
rest for one between two tasks; fifteen seconds at most."""
MOST_STOLEN = 0.02
MOST_SLOWER = 3.0
MOST_TRIES = 4

Figures = dict[str, float]


@contextlib.contextmanager
def alone(peer: Peer, found: Sequence[Peer]) -> Iterator[None]:
    """The machine for one broker: the others are stopped meanwhile."""
    with contextlib.ExitStack() as stack:
        for other in found:
            if other is not peer:
                stack.enter_context(other.stopped())
        settle(peer)
        yield


def settle(peer: Peer) -> None:
    """Waits until a broker has nothing left to do, and writes the page cache of both brokers to the disk: the kernel
    writes it back at a time of its own, at the cost of the broker that is measured then."""
    os.sync()
    deadline = time.monotonic() + MAX_SETTLE_S
    used, quiet = peer.processor_s(), 0
    while quiet < QUIET_SAMPLES and time.monotonic() < deadline:
        time.sleep(SETTLE_S)
        before, used = used, peer.processor_s()
        quiet = quiet + 1 if used - before < QUIET_SHARE * SETTLE_S else 0
    os.sync()


class Undisturbed:
    """Repeats a measurement that the host disturbed: it took processors away, or its disk was slow before or after."""

    def __init__(self, found: Sequence[Peer], data: Path) -> None:
        self._found = found
        self._data = data
        self._quickest_ms = machine.fdatasync_ms(data)

    def __call__(self, workload: Callable[[Peer, float], Figures], peer: Peer, seconds: float) -> tuple[str, Figures]:
        """Chooses the least disturbed measurement: its disturbance, and its figures."""
        best = float("inf")
        shown, figures = "", Figures()
        for _ in range(MOST_TRIES):
            with alone(peer, self._found):
                before_ms = self._disk_ms()
                stolen_s, started = machine.stolen_s(), time.perf_counter()
                found = workload(peer, seconds)
                elapsed = (time.perf_counter() - started) * (os.cpu_count() or 1)
                stolen = (machine.stolen_s() - stolen_s) / elapsed
                disk_ms = max(before_ms, self._disk_ms())
            disturbed = max(stolen / MOST_STOLEN, disk_ms / (MOST_SLOWER * self._quickest_ms))
            if disturbed < best:
                best, figures = disturbed, found
                shown = f"(stolen {stolen:.1%}, fdatasync {disk_ms:.2f} ms)"
            if disturbed <= 1:
                break
        return shown, figures

    def _disk_ms(self) -> float:
        now_ms = machine.fdatasync_ms(self._data)
        self._quickest_ms = min(self._quickest_ms, now_ms)
        return now_ms
