"""Memory of connections: one budget for the unfinished frames and the unread output of all of them together
(SEC-30).

Frames. A connection whose frame is unfinished holds its beginning. Up to half of the budget is promised to whole
frames; three quarters, when they are small. A frame that does not fit waits: its connection is not read until another
frame is whole. While others wait, a frame that makes no progress, or takes too long, ends its connection; so does one
that comes when frames of four budgets wait already, as the system holds the unread bytes.

Output. From a quarter of the budget on, connections with unread output get no more messages and are not read, so that
they request nothing more, until half of that is left. One that takes nothing for long then ends, the largest first.

All. Past the budget connections end, until an eighth of it is free: first those that stand still, then those that hold
most. A frame that has its promise and comes along is never among them.

Small shares are not counted: what a connection holds up to `UNCOUNTED_BYTES` each way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

DEFAULT_BUDGET_BYTES: Final = 128 * 1024 * 1024
UNCOUNTED_BYTES: Final = 16 * 1024
"""Bytes each way that a connection may hold uncounted: as many as a stranger's first frame has."""
SMALL_FRAME_BYTES: Final = 1024 * 1024
TICK_S: Final = 1.0
"""Interval of the checks while a connection waits."""
FRAME_STALL_S: Final = 2.0
"""Time without a byte after which a frame that others wait for ends its connection."""
FRAME_TIME_S: Final = 10.0
"""Time that such a frame may take in all."""
UNREAD_STALL_S: Final = 10.0
"""Time after which a peer that takes none of its output ends, while output is short of memory."""
_MOST_WAITING: Final = 4
"""Budgets of frames that may wait."""
_LINES: Final = 5
_LINES_INTERVAL_S: Final = 10.0
"""Lines that the log gets in each such interval."""

_LOG = logging.getLogger("spark_pulsar.server")


class Holder(Protocol):
    """A connection, as the budget sees it."""

    def restrain(self, *, is_read: bool, gets_messages: bool) -> None:
        """Reads from the peer and sends it messages, or not for now."""

    def is_listening(self) -> bool:
        """Returns whether it is up to the peer that nothing arrives."""

    def count_unread(self) -> int:
        """Counts the bytes that the peer has not taken."""

    def keep_waiting(self) -> None:
        """Notes that the peer cannot be heard, as it has to wait."""

    def end(self) -> str:
        """Ends the connection at once, and names it."""


class Share:
    """Memory that one connection holds."""

    __slots__ = (
        "begun_s",
        "frame_bytes",
        "heard_s",
        "is_promised",
        "is_slow",
        "received_bytes",
        "unread_bytes",
        "waits",
    )

    def __init__(self) -> None:
        self.received_bytes = 0
        self.unread_bytes = 0
        self.frame_bytes = 0
        """Bytes of the unfinished frame once it is whole; 0 when there is none, or nothing of its size is known."""
        self.is_promised = False
        self.waits = False
        self.is_slow = False
        """The connection gets no messages, and is not read, for its unread output."""
        self.heard_s = 0.0
        """Time of the last progress."""
        self.begun_s = 0.0
        """Time at which the frame got its promise."""

    @property
    def held_bytes(self) -> int:
        """Bytes that the connection holds both ways."""
        return self.received_bytes + self.unread_bytes


class ConnectionMemory:
    """The budget, and the share of each connection that holds more than a little."""

    def __init__(
        self,
        budget_bytes: int,
        clock: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """`clock` returns seconds."""
        self.budget_bytes = budget_bytes
        self.held_bytes = 0
        """Bytes of all shares."""
        self.unread_bytes = 0
        """Unread output in them."""
        self.promised_bytes = 0
        """Bytes of the frames that have a promise, once they are whole."""
        self.waiting_bytes = 0
        """Bytes of the frames that wait, once they are whole."""
        self.few_bytes = budget_bytes // 16
        """Unread output up to which connections write views of larger buffers, which live as long."""
        self.is_short = False
        """True when unread output takes so much of the memory that connections with any get no more."""
        self.shares: dict[Holder, Share] = {}
        self._waiting: tuple[dict[Holder, Share], dict[Holder, Share]] = ({}, {})
        """Connections whose frames wait, in the order of their coming: large frames, small ones."""
        self._clock = clock
        self._call_later = call_later
        self._ticks = False
        self._lines: list[float] = []
        self._unsaid = 0

    def received(self, holder: Holder, kept_bytes: int, missing_bytes: int) -> None:
        """Notes what a connection holds of what arrived last: of a frame that lacks `missing_bytes`, or, if that is 0,
        of anything else."""
        share = self._share(holder)
        share.heard_s = self._clock()
        grown = kept_bytes - share.received_bytes
        self.held_bytes += grown
        share.received_bytes = kept_bytes
        frame_bytes = kept_bytes + missing_bytes if missing_bytes else 0
        if grown <= 0 or frame_bytes != share.frame_bytes or not (share.is_promised or share.waits):
            self._withdraw(holder, share)  # it was whole, and another one has begun
            share.frame_bytes = frame_bytes
            if frame_bytes:
                self._promise(holder, share)
        self._settle(holder, share)
        if self.waiting_bytes > _MOST_WAITING * self.budget_bytes and share.waits:
            self._end(holder, share, f"frames of {self.waiting_bytes:,} bytes wait for memory")

    def unread(self, holder: Holder, unread_bytes: int) -> None:
        """Notes the output that a peer has not taken."""
        share = self._share(holder)
        self._note_unread(share, unread_bytes)
        if unread_bytes and not share.is_slow:
            if not self.is_short and self.unread_bytes > self.budget_bytes // 4:
                self._set_short(is_short=True)
            elif self.is_short:
                self._set_slow(holder, share, is_slow=True)
        elif share.is_slow and not unread_bytes:
            self._set_slow(holder, share, is_slow=False)
        self._settle(holder, share)

    def release(self, holder: Holder) -> None:
        """Frees the share of a connection that has ended."""
        share = self.shares.pop(holder, None)
        if share is not None:
            self.held_bytes -= share.held_bytes
            self.unread_bytes -= share.unread_bytes
            if share.is_promised:
                self.promised_bytes -= share.frame_bytes
            elif share.waits:
                self._leave_queue(holder, share)
            self._resume_waiting()

    # Shares

    def _share(self, holder: Holder) -> Share:
        share = self.shares.get(holder)
        if share is None:
            share = self.shares[holder] = Share()
        return share

    def _note_unread(self, share: Share, unread_bytes: int) -> None:
        if unread_bytes < share.unread_bytes or not share.unread_bytes:
            share.heard_s = self._clock()
        grown = unread_bytes - share.unread_bytes
        share.unread_bytes = unread_bytes
        self.held_bytes += grown
        self.unread_bytes += grown

    def _settle(self, holder: Holder, share: Share) -> None:
        """Does what the new sums require."""
        if not share.held_bytes:
            self.shares.pop(holder, None)
        self._resume_waiting()
        if self.held_bytes > self.budget_bytes:
            self._relieve()

    def _resume_waiting(self) -> None:
        """Resumes the connections that had to wait for memory that is free now."""
        if self.is_short and self.unread_bytes <= self.budget_bytes // 8:
            self._set_short(is_short=False)
        self._grant()

    # Frames

    def _fits(self, frame_bytes: int) -> bool:
        limit = self.budget_bytes // 2 if frame_bytes > SMALL_FRAME_BYTES else self.budget_bytes * 3 // 4
        return not self.promised_bytes or self.promised_bytes + frame_bytes <= limit

    def _promise(self, holder: Holder, share: Share) -> None:
        queue = self._waiting[share.frame_bytes <= SMALL_FRAME_BYTES]
        if queue or not self._fits(share.frame_bytes):
            share.waits = True
            self.waiting_bytes += share.frame_bytes
            queue[holder] = share
            self._restrain(holder, share)
            self._tick_later()
        else:
            share.is_promised = True
            share.begun_s = self._clock()
            self.promised_bytes += share.frame_bytes

    def _withdraw(self, holder: Holder, share: Share) -> None:
        if share.is_promised:
            share.is_promised = False
            self.promised_bytes -= share.frame_bytes
        elif share.waits:
            self._leave_queue(holder, share)
            self._restrain(holder, share)

    def _grant(self) -> None:
        """Reads the frames that have waited longest, as far as there is room for them."""
        for queue in self._waiting:
            while queue:
                holder, share = next(iter(queue.items()))
                if not self._fits(share.frame_bytes):
                    break
                self._leave_queue(holder, share)
                share.is_promised = True
                share.begun_s = share.heard_s = self._clock()
                self.promised_bytes += share.frame_bytes
                self._restrain(holder, share)

    def _leave_queue(self, holder: Holder, share: Share) -> None:
        share.waits = False
        self.waiting_bytes -= share.frame_bytes
        del self._waiting[share.frame_bytes <= SMALL_FRAME_BYTES][holder]

    # Output

    def _set_short(self, *, is_short: bool) -> None:
        self.is_short = is_short
        for holder, share in list(self.shares.items()):
            if share.unread_bytes or share.is_slow:
                self._set_slow(holder, share, is_slow=is_short)
        if is_short:
            self._tick_later()

    def _set_slow(self, holder: Holder, share: Share, *, is_slow: bool) -> None:
        if share.is_slow != is_slow:
            share.is_slow = is_slow
            self._restrain(holder, share)

    def _restrain(self, holder: Holder, share: Share) -> None:
        holder.restrain(is_read=not (share.waits or share.is_slow), gets_messages=not share.is_slow)

    # The end of connections

    def _relieve(self) -> None:
        """Ends connections until an eighth of the budget is free."""
        self._recount_unread()
        now_s = self._clock()
        last_bytes = self.budget_bytes * 7 // 8
        stands = {holder: self._stands(holder, share, now_s, FRAME_STALL_S) for holder, share in self.shares.items()}
        hungriest = sorted(self.shares.items(), key=lambda item: (not stands[item[0]], -item[1].held_bytes))
        for holder, share in hungriest:
            if self.held_bytes <= last_bytes:
                break
            if stands[holder] or not share.is_promised:
                self._end(holder, share, f"connections hold more than {self.budget_bytes:,} bytes")

    def _tick_later(self) -> None:
        if not self._ticks:
            self._ticks = True
            self._call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        """Ends connections that stand still and hold what others wait for."""
        self._ticks = False
        now_s = self._clock()
        if self.is_short:
            self._recount_unread()
            self._end_unread(now_s)
        if any(self._waiting):
            for holder, share in list(self.shares.items()):
                if not share.is_promised:
                    continue
                if not holder.is_listening():
                    share.heard_s = share.begun_s = now_s
                elif now_s - share.heard_s >= FRAME_STALL_S or now_s - share.begun_s >= FRAME_TIME_S:
                    self._end(holder, share, f"others wait for the memory of its frame of {share.frame_bytes:,} bytes")
        for queue in self._waiting:
            for holder in queue:
                holder.keep_waiting()
        if self.is_short or any(self._waiting):
            self._tick_later()

    def _end_unread(self, now_s: float) -> None:
        for holder, share in sorted(self.shares.items(), key=lambda item: -item[1].unread_bytes):
            if not self.is_short or not share.unread_bytes:
                break
            if self._stands(holder, share, now_s, UNREAD_STALL_S):
                self._end(holder, share, f"it takes no output for {UNREAD_STALL_S:.0f} s, and others need the memory")

    def _stands(self, holder: Holder, share: Share, now_s: float, after_s: float) -> bool:
        """Returns whether it is the peer's doing that a connection has made no progress for so long."""
        is_peers = share.unread_bytes > 0 or (not share.waits and holder.is_listening())
        return is_peers and now_s - share.heard_s >= after_s

    def _recount_unread(self) -> None:
        """Counts the output that has left since it was written."""
        for holder, share in self.shares.items():
            if share.unread_bytes:
                self._note_unread(share, min(holder.count_unread(), share.unread_bytes))

    def _end(self, holder: Holder, share: Share, reason: str) -> None:
        self.release(holder)
        name = holder.end()
        now_s = self._clock()
        self._lines = [logged_s for logged_s in self._lines if now_s - logged_s < _LINES_INTERVAL_S]
        if len(self._lines) >= _LINES:
            self._unsaid += 1
            return
        self._lines.append(now_s)
        before = f" ({self._unsaid:,} connections before it without a line)" if self._unsaid else ""
        self._unsaid = 0
        _LOG.error(
            "%s closed: %s; it held %d bytes of a frame and %d of unread output%s",
            name,
            reason,
            share.received_bytes,
            share.unread_bytes,
            before,
        )
