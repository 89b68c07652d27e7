"""Parameters of a WebSocket's query: each read by its type; a value that does not fit is refused with 400 (WS-3)."""

from __future__ import annotations

from collections.abc import Mapping

from spark_pulsar.admin.http.refusals import Refused

_LARGEST_INT = (1 << 31) - 1
_LARGEST_LONG = (1 << 63) - 1


def invalid(text: str) -> Refused:
    """Returns the refusal of a parameter."""
    return Refused(400, f"Invalid query params: {text}")


class Parameters:
    """Parameters of a query; those that a WebSocket does not have are ignored, as in Apache Pulsar."""

    def __init__(self, query: Mapping[str, str]) -> None:
        self._query = query

    def __contains__(self, name: str) -> bool:
        return name in self._query

    def text(self, name: str) -> str | None:
        """Returns a text that is not blank; None without the parameter."""
        value = self._query.get(name)
        if value is not None and not value.strip():
            raise invalid(f"{name} cannot be blank")
        return value

    def raw(self, name: str) -> str:
        """Returns a text as it is; empty without the parameter."""
        return self._query.get(name, "")

    def number(self, name: str, default: int, least: int | None = None, *, is_long: bool = False) -> int:
        """Returns a whole number of Java's `int`, or `long`."""
        value = self._query.get(name)
        if value is None:
            return default
        largest = _LARGEST_LONG if is_long else _LARGEST_INT
        sign, digits = (-1, value[1:]) if value[:1] == "-" else (1, value.removeprefix("+"))
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 20) or int(digits) > largest:
            raise invalid(f"{name}={value[:40]}: want a whole number up to {largest}")
        number = sign * int(digits)
        if least is not None and number < least:
            raise invalid(f"{name} needs to be >= {least}")
        return number

    def flag(self, name: str) -> bool:
        """Returns whether a parameter is `true`; any other text is false, as in Java."""
        return self._query.get(name, "").lower() == "true"

    def choice(self, name: str, allowed: Mapping[str, int], default: str) -> str:
        """Returns one of these words."""
        value = self._query.get(name, default)
        if value not in allowed:
            raise invalid(f"Invalid {name} {value[:40]}: want {', '.join(allowed)}")
        return value
