"""Secrets: text that is used and carried, and never shown (READ-15). The broker masks those of its configuration in
`broker.configuration.keys` (SEC-85)."""

from dataclasses import dataclass
from typing import Final

REDACTED: Final = "*********(redacted)"
"""The text in place of a secret; Spark's own words for it."""


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A text that no repr, log or error shows. Hashable and picklable: it reaches the processes that use it."""

    _text: str

    def reveal(self) -> str:
        """Returns the text itself, for the wire."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return REDACTED

    def hidden_in(self, text: str) -> str:
        """Returns a text from outside, in which this secret may be quoted, without it."""
        return text.replace(self._text, REDACTED) if self._text else text
