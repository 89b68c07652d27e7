"""Patterns of topic names, as clients send them (MT-2).

They come from anybody, so RE2 matches them: in time that grows with the text, whatever the pattern. Python's own `re`
would let one client stop the broker. pyarrow brings RE2 along; it is loaded with the first pattern.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_pulsar.model.names import TopicName


class InvalidPattern(ValueError):
    """The text is no regular expression."""


class TopicPattern:
    """A regular expression that a name without domain and partition matches as a whole: `public/default/a.*`. A domain
    in front of the pattern means nothing."""

    __slots__ = ("_expression", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        _, separator, rest = text.partition("://")
        expression = rest if separator else text
        _matches(expression, ("",))  # before it is wrapped, so that `a)(b` is refused
        self._expression = rf"\A(?:{expression})\z"
        _matches(self._expression, ("",))

    def select(self, names: Sequence[TopicName]) -> list[str]:
        """The full names of those that match."""
        texts = [f"{name.tenant}/{name.namespace}/{name.base.local}" for name in names]
        return [name.full for name, fits in zip(names, _matches(self._expression, texts), strict=True) if fits]


def _matches(expression: str, texts: Sequence[str]) -> list[bool]:
    import pyarrow
    import pyarrow.compute

    try:
        found = pyarrow.compute.match_substring_regex(pyarrow.array(texts, pyarrow.string()), expression)
    except (pyarrow.ArrowInvalid, UnicodeEncodeError) as error:
        raise InvalidPattern(str(error)) from error
    return list(found.to_pylist())
