"""Names of subscriptions in options, `predefinedSubscription` (OFFSET-14) too. Retry letters of a subscription are read
with `enableRetry`, which `options` checks (LETTER-2)."""

from __future__ import annotations

from typing import Final

from spark_pulsar.model.names import REPLICATOR_PREFIX

_MOST_CHARACTERS: Final = 200


def subscription(text: str) -> str:
    """Returns the name of a subscription. Raises ValueError."""
    if not text:
        raise ValueError("empty name")
    return text


def prefix(text: str) -> str:
    """Returns the begin of subscription names. Raises ValueError.

    Roles may hold almost any character (`spiffe://…`, `CN=…`), and a namespace may demand that names begin with one
    (READ-39).
    """
    if not 0 < len(text) <= _MOST_CHARACTERS:
        raise ValueError(f"expected a text of 1 to {_MOST_CHARACTERS} characters")
    if bad := next((character for character in text if not character.isprintable() or character.isspace()), None):
        raise ValueError(f"{bad!r} cannot be in the name of a subscription: leave out spaces and control characters")
    if text.startswith(REPLICATOR_PREFIX):
        raise ValueError(f"names that begin with {REPLICATOR_PREFIX} are reserved for the broker")
    return text
