"""Patterns of topic names, as clients send them (MT-2).

Any client may send one, so RE2 matches them: in time that grows with the text, whatever the pattern, and in a bounded
memory. Python's own `re` would let one client stop the broker. RE2 is imported with the first pattern.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.model.names import without_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Matcher = Callable[[str, Sequence[str]], list[bool]]

_MAX_COMPILED_BYTES: Final = 256 * 1024
"""Memory of one compiled pattern. RE2 keeps the 128 that were used last."""

MAX_INSTRUCTIONS: Final = 4_000
"""Instructions of a compiled pattern. Names of a hundred topics, one after the other, have 3,000."""
_INSTRUCTIONS_A_MICROSECOND: Final = 10
"""Instructions that a name takes a microsecond for, at the worst."""


class InvalidPattern(ValueError):
    """Error of a text that is no regular expression, or one that would take too much memory."""


class UnsupportedPattern(InvalidPattern):
    """Error of a regular expression that Java may know and RE2 does not, such as one with look-ahead, or that is too
    costly: clients match names by it themselves."""


_UNSUPPORTED: Final = (
    "invalid perl operator",
    "invalid escape sequence",
    "invalid character class range",
    "invalid named capture group",
    "invalid repetition size",
    "bad repetition operator",
    "pattern too large",
)
"""Begin of what RE2 says of those."""


def _refused(reason: str) -> InvalidPattern:
    return UnsupportedPattern(reason) if reason.startswith(_UNSUPPORTED) else InvalidPattern(reason)


class TopicPattern:
    """Regular expression that a name without domain and partition matches as a whole: `public/default/a.*`. A domain in
    front of the pattern means nothing."""

    __slots__ = ("_expression", "cost", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        _, separator, rest = text.partition("://")
        expression = rest if separator else text
        matches = matcher()
        matches(expression, ("",))  # before it is wrapped, so that `a)(b` is refused
        self._expression = rf"\A(?:{expression})\z"
        matches(self._expression, ("",))
        self.cost = 1 + instructions(self._expression) // _INSTRUCTIONS_A_MICROSECOND
        """Microseconds that matching a name takes at the worst."""

    def select(self, names: Sequence[str]) -> list[str]:
        """Selects the full names of topics that match. Partitions of a topic that stand together are matched once."""
        bases = [without_partition(name) for name in names]
        different = list(dict.fromkeys(bases))
        texts = [base[base.index("://") + 3 :] for base in different]
        fitting = {base for base, fits in zip(different, matcher()(self._expression, texts), strict=True) if fits}
        return [name for name, base in zip(names, bases, strict=True) if base in fitting]


def instructions(expression: str) -> int:
    """Counts the instructions of an expression that compiles."""
    return int(_compile(expression).programsize)


@cache
def _compiler() -> Callable[[str], Any]:
    import re2

    options = re2.Options()
    options.max_mem = _MAX_COMPILED_BYTES
    options.log_errors = False
    options.never_capture = True

    def compile_(expression: str) -> Any:
        try:
            return re2.compile(expression, options)
        except re2.error as error:
            raise _refused(error.args[0].decode(errors="replace")) from error
        except UnicodeEncodeError as error:
            raise InvalidPattern(str(error)) from error

    return compile_


def _compile(expression: str) -> Any:
    return _compiler()(expression)


@cache
def matcher() -> Matcher:
    """Makes the function that returns the texts in which an expression is found. It raises InvalidPattern."""
    compiled = _compiler()

    def matches(expression: str, texts: Sequence[str]) -> list[bool]:
        pattern = compiled(expression)
        if pattern.programsize > MAX_INSTRUCTIONS:
            raise UnsupportedPattern(f"pattern too large: {pattern.programsize} steps, not {MAX_INSTRUCTIONS} at most")
        try:
            return [pattern.search(text) is not None for text in texts]
        except UnicodeEncodeError as error:
            raise InvalidPattern(str(error)) from error

    return matches
