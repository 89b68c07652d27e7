"""Readers of values in the JSON of policies, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.limits import INT

_MOST_CHARACTERS: Final = 64
Reader = Callable[[Any], Any]
"""Reads the JSON of a policy; raises PulsarError."""


def number(value: object, what: str, most: int = INT) -> int:
    """Reads a whole number, also from text, a fraction (cut) or a truth value (T-16). `most`: the largest of its
    type."""
    if isinstance(value, bool | int | float | str):
        try:
            integer = int(value)
        except (ValueError, OverflowError):
            pass
        else:
            if -most - 1 <= integer <= most:
                return integer
            nearest = most if integer > 0 else -most - 1
            raise OutOfRange(f"{what}: the number is out of range, {-most - 1} to {most}", what, nearest)
    raise MalformedPolicy(f"{what}: want a whole number, got {value!r}")


def truth(value: object, what: str) -> bool:
    """Reads true or false, also as text or number (T-16)."""
    if isinstance(value, bool | int | float):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise MalformedPolicy(f"{what}: want true or false, got {value!r}")


def short_text(value: object, what: str) -> str:
    """Reads a text of a word or two."""
    if isinstance(value, str) and len(value) <= _MOST_CHARACTERS:
        return value
    raise MalformedPolicy(f"{what}: want a text of {_MOST_CHARACTERS} characters at most, got {str(value)[:100]!r}")


def members(value: object, what: str) -> Mapping[str, Any]:
    """Reads a JSON object."""
    if isinstance(value, Mapping):
        return value
    raise MalformedPolicy(f"{what}: want a JSON object, got {value!r}")


def at_least_zero(value: object, refusal: str, most: int = INT) -> int:
    """Reads a number that is not negative; `refusal` is the text of the error."""
    parsed = number(value, refusal, most)
    if parsed < 0:
        raise InvalidPolicy(refusal)
    return parsed


class MalformedPolicy(PulsarError):
    """A policy whose value cannot be read, or contradicts itself."""

    http_status = 400


class OutOfRange(MalformedPolicy):
    """A number larger, or further below zero, than its type holds: its member, and the nearest number that fits."""

    def __init__(self, message: str, what: str, nearest: int) -> None:
        super().__init__(message)
        self.what = what
        self.nearest = nearest


class InvalidPolicy(PulsarError):
    """A policy whose value is out of its range, or contradicts another policy."""

    http_status = 412


def subscription_types(value: object) -> frozenset[str]:
    """Reads a list of some of `SUBSCRIPTION_TYPES`."""
    if not isinstance(value, list):
        raise MalformedPolicy(f"subscriptionTypesEnabled: want a list, got {value!r}")
    wrong = [name for name in value if name not in SUBSCRIPTION_TYPES]
    if wrong:
        raise InvalidPolicy(f"Unknown subscription type {wrong[0]!r}: want some of {', '.join(SUBSCRIPTION_TYPES)}")
    return frozenset(value)


SUBSCRIPTION_TYPES: Final = ("Exclusive", "Shared", "Failover", "Key_Shared")
