"""Patterns of topic names, as clients send them (MT-2).

Any client may send one, so RE2 matches them: in time that grows with the text, whatever the pattern, and in a bounded
memory. Python's own `re` would let one client stop the broker. RE2 is imported with the first pattern.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_pulsar.model.names import TopicName

    Matcher = Callable[[str, Sequence[str]], list[bool]]

_MAX_COMPILED_BYTES: Final = 256 * 1024
"""Memory of one compiled pattern. RE2 keeps the 128 that were used last."""

MAX_INSTRUCTIONS: Final = 4_000
"""Instructions of a compiled pattern: a name takes a microsecond for every ten of them at the worst, and the broker
does nothing else meanwhile. Names of a hundred topics, one after the other, have 3,000."""


class InvalidPattern(ValueError):
    """Error of a text that is no regular expression, or one that would take too much memory."""


class TopicPattern:
    """Regular expression that a name without domain and partition matches as a whole: `public/default/a.*`. A domain in
    front of the pattern means nothing."""

    __slots__ = ("_expression", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        _, separator, rest = text.partition("://")
        expression = rest if separator else text
        matches = matcher()
        matches(expression, ("",))  # before it is wrapped, so that `a)(b` is refused
        self._expression = rf"\A(?:{expression})\z"
        matches(self._expression, ("",))

    def select(self, names: Sequence[TopicName]) -> list[str]:
        """Selects the full names of topics that match."""
        texts = [f"{name.tenant}/{name.namespace}/{name.base.local}" for name in names]
        return [name.full for name, fits in zip(names, matcher()(self._expression, texts), strict=True) if fits]


@cache
def matcher() -> Matcher:
    """Makes the function that tells in which texts an expression is found. It raises InvalidPattern."""
    import re2

    options = re2.Options()
    options.max_mem = _MAX_COMPILED_BYTES
    options.log_errors = False
    options.never_capture = True

    def matches(expression: str, texts: Sequence[str]) -> list[bool]:
        try:
            compiled = re2.compile(expression, options)
            if compiled.programsize > MAX_INSTRUCTIONS:
                raise InvalidPattern(f"pattern too large: {compiled.programsize} steps, not {MAX_INSTRUCTIONS} at most")
            search = compiled.search
            return [search(text) is not None for text in texts]
        except re2.error as error:
            raise InvalidPattern(error.args[0].decode(errors="replace")) from error
        except UnicodeEncodeError as error:
            raise InvalidPattern(str(error)) from error

    return matches
