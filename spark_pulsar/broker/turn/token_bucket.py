"""Token buckets of publish (PR-14), dispatch (SUB-7) and subscribe rates (SUB-6)."""

from __future__ import annotations

from typing import Final

_SECOND_MS: Final = 1_000
_BELIEVED_MESSAGES: Final = 1_000
"""Messages that official clients put into a batch at most, unless their configuration says otherwise."""


def believable_messages(messages: int, size_bytes: int) -> int:
    """Returns the number of messages that entries say they hold, as far as their bytes make it believable: one a byte,
    however well they are compressed. A rate that believed one entry of two billion would stop its topic for weeks."""
    return min(messages, max(_BELIEVED_MESSAGES, size_bytes))


class TokenBucket:
    """A bucket with the tokens of one period, full at first, which fills again at its rate.

    Tokens are counted in parts of them, so that a millisecond of any rate is a whole number of parts.
    """

    __slots__ = ("left", "rate", "unit")

    def __init__(self, rate: int, period_s: int = 1) -> None:
        self.rate = rate
        """Tokens in a period; 0 = no limit."""
        self.unit = _SECOND_MS * period_s
        """Parts of a token."""
        self.left = rate * self.unit

    def refill(self, elapsed_ms: int) -> None:
        """Adds the tokens of the time that has passed."""
        self.left = min(self.rate * self.unit, self.left + self.rate * elapsed_ms)

    def spend(self, amount: int) -> None:
        """Takes tokens, below zero too."""
        if self.rate:
            self.left -= amount * self.unit

    @property
    def tokens(self) -> int:
        """Whole tokens in the bucket; of no meaning without a limit."""
        return self.left // self.unit

    @property
    def wait_ms(self) -> int:
        """Milliseconds until it holds a whole token."""
        missing = self.unit - self.left
        return 0 if not self.rate or missing <= 0 else -(-missing // self.rate)
