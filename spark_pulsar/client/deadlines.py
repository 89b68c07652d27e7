"""Deadlines whose errors name the operation that was waited for."""

from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.client.errors import OperationTimeout
from spark_pulsar.model.errors import PulsarError


class Deadline:
    """The moment an operation must be over, with its name and place for the error.

    `what` completes "timed out while …" (for example "looking up persistent://public/default/t"), `where` is the
    address or URL in question. `waited_ms` is the part of the time that has passed already.
    """

    __slots__ = ("_cause", "_end_ms", "timeout_ms", "what", "where")

    def __init__(self, timeout_ms: int, what: str, where: str, waited_ms: int = 0) -> None:
        self.timeout_ms = timeout_ms
        self.what = what
        self.where = where
        self._end_ms = monotonic_ms() + timeout_ms - waited_ms
        self._cause: PulsarError | None = None

    def left_ms(self) -> int:
        """Milliseconds left, never below 0."""
        return max(0, self._end_ms - monotonic_ms())

    @property
    def passed(self) -> bool:
        """Returns whether the time is up."""
        return monotonic_ms() >= self._end_ms

    def at_most(self, timeout_ms: int, what: str, where: str) -> "Deadline":
        """Returns a deadline for one step of this operation: `timeout_ms` from now, but not after this one."""
        return Deadline(min(timeout_ms, self.left_ms()), what, where)

    def note(self, cause: PulsarError) -> None:
        """Keeps the error of a failed attempt: the time may be up in the middle of the next one. That an attempt got no
        answer does not hide what the broker said to one before."""
        if self._cause is None or not isinstance(cause, OperationTimeout):
            self._cause = cause

    def error(self, otherwise: PulsarError | None = None) -> OperationTimeout:
        """Returns the error to raise when the time is up, caused by what was noted last, or else by `otherwise`."""
        cause = self._cause or otherwise
        timeout = OperationTimeout(self.what, self.where, self.timeout_ms, str(cause) if cause else "")
        timeout.__cause__ = cause
        return timeout
