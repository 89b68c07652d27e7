"""Permits of a reader: messages that it may be sent ahead of those taken."""

from typing import Final

_FIRST_PERMITS: Final = 1_000
_FIRST_MESSAGE_BYTES: Final = 1_024
"""Size that messages are thought to have before any has come, where little may wait."""
_MAX_PERMITS: Final = 1_000_000


class Permits:
    """Turns a budget in bytes into permits, which Pulsar counts in messages, by the sizes seen so far (W5).

    Also keeps the broker from sending far beyond the end of a range: permits never exceed what the entries left may
    hold, nor `most`. With `is_strict` the first ones, given before any size was seen, keep to the budget too. A broker
    charges an entry by its messages but sends it whole, so that too few permits cost a round trip, not a hang.
    """

    def __init__(self, budget_bytes: int, *, is_strict: bool = False, most: int | None = None) -> None:
        self._budget_bytes = max(1, budget_bytes)
        self._first_message_bytes = _FIRST_MESSAGE_BYTES if is_strict else 1
        self._most = _MAX_PERMITS if most is None else max(1, most)
        self._outstanding = 0
        self._messages = 0
        self._entries = 0
        self._bytes = 0
        self.entries_left: int | None = None
        """Entries that the range still has at most; None when that is not known."""

    def reset(self) -> None:
        """A new consumer starts without permits."""
        self._outstanding = 0

    def received(self, messages: int, entries: int, size_bytes: int) -> None:
        """Entries arrived."""
        self._outstanding -= messages
        self._messages += messages
        self._entries += entries
        self._bytes += size_bytes

    def grant(self) -> int:
        """Returns the permits to give now; 0 while enough are out."""
        window = self._window()
        if self._outstanding > window // 2:
            return 0
        return self._give(window - self._outstanding)

    def grant_again(self) -> int:
        """Permits to give although enough should be out: nothing comes, so the broker has counted differently."""
        self._outstanding = 0
        return self._give(self._window())

    def revoke(self, permits: int) -> None:
        """Permits that could not be sent."""
        self._outstanding -= permits

    def _give(self, permits: int) -> int:
        permits = max(0, permits)
        self._outstanding += permits
        return permits

    def _window(self) -> int:
        if not self._entries:
            window, per_entry = min(_FIRST_PERMITS, self._most, self._budget_bytes // self._first_message_bytes), 1
        else:
            window = max(1, min(self._most, self._budget_bytes * self._messages // max(1, self._bytes)))
            per_entry = max(1, self._messages // self._entries)
        if self.entries_left is not None:
            window = min(window, self.entries_left * per_entry)
        return max(1, window)
