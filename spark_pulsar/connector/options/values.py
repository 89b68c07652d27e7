"""Values of options: read from text, with errors that name the option and hide secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from spark_pulsar.client.connections.service_url import without_user
from spark_pulsar.client.secret import REDACTED
from spark_pulsar.connector.errors import OptionError
from spark_pulsar.model.errors import PulsarError

SECRET_OPTIONS: Final = frozenset(
    {
        "pulsar.client.authParams",
        "pulsar.client.tlsKeyStorePassword",
        "pulsar.client.tlsTrustStorePassword",
        "encryptionPrivateKeys",
    }
)
"""Options whose values no error shows."""


MOST_SHOWN: Final = 200
"""Characters of a value that an error shows."""


class GivenValues(dict[str, str]):
    """Texts of the options that are given, by their names in the table."""

    def __init__(self) -> None:
        super().__init__()
        self.spelled: dict[str, str] = {}
        """Other names under which some were given."""
        self.lenient: set[str] = set()
        """Names in the table of settings of the Java client, which may be given where they are of no use."""
        self.without_effect: dict[str, str] = {}
        """Names that are accepted, and the reason why they have no effect."""

    def spelling(self, name: str) -> str:
        """Returns the name under which an option was given."""
        return self.spelled.get(name, name)


def read(values: Mapping[str, str], name: str, parse: Callable[[str], Any], default: Any) -> Any:
    """Returns the parsed value of one option, or `default` where it is not given. Raises OptionError."""
    if name not in values:
        return default
    try:
        return parse(values[name].strip())
    except (ValueError, PulsarError, RecursionError) as error:
        spelled = values.spelling(name) if isinstance(values, GivenValues) else name
        reason = "too many brackets" if isinstance(error, RecursionError) else error
        raise OptionError(f"option {spelled} = {_shown(name, values[name])}: {reason}") from error


def boolean(text: str) -> bool:
    """Reads true or false. Raises ValueError."""
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


_MS_OF_UNIT: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(text: str) -> int:
    """Reads a duration as Spark writes it, such as `15m` or `10s`; a number alone is milliseconds. Raises
    ValueError."""
    match = re.fullmatch(r"(\d{1,15})\s*([a-z]*)", text.lower())
    if match is None or (match[2] or "ms") not in _MS_OF_UNIT:
        raise ValueError(f"expected a duration such as 15m, with one of the units {', '.join(_MS_OF_UNIT)}")
    return int(match[1]) * _MS_OF_UNIT[match[2] or "ms"]


def web_url(text: str) -> str:
    """Reads the address of an HTTP server, without the slash at its end. Raises ValueError."""
    if not re.fullmatch(r"https?://[^/\s,]+/?", text):
        raise ValueError("expected http://host:port or https://host:port")
    return text.removesuffix("/")


def texts_by_name(text: str) -> tuple[tuple[str, str], ...]:
    """Reads a JSON object of texts. Raises ValueError."""
    try:
        loaded = json.loads(text)
    except json.JSONDecodeError:
        loaded = None
    if not isinstance(loaded, dict) or not all(isinstance(value, str) for value in loaded.values()):
        raise ValueError('expected a JSON object of texts, for example {"team": "flights"}')
    return tuple(loaded.items())


def names_in(text: str) -> list[str]:
    """Reads names that are separated by commas, or a JSON array of names. Raises ValueError."""
    if not text.startswith("["):
        return [name.strip() for name in text.split(",") if name.strip()]
    try:
        loaded = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        loaded = [None]
    if not all(isinstance(name, str) for name in loaded):
        raise ValueError("expected names, separated by commas or in a JSON array")
    return [name.strip() for name in loaded if name.strip()]


def integer(low: int, high: int) -> Callable[[str], int]:
    """Makes a reader of whole numbers from `low` to `high`, which raises ValueError."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"-?\d{1,19}", text) or not low <= int(text) <= high:
            raise ValueError(f"expected a whole number from {low} to {high}")
        return int(text)

    return parse


def one_of(*names: str) -> Callable[[str], str]:
    """Makes a reader of one of these words, in any case, which raises ValueError."""
    by_lower = {name.lower(): name for name in names}

    def parse(text: str) -> str:
        if text.lower() not in by_lower:
            raise ValueError(f"expected one of {', '.join(names)}")
        return by_lower[text.lower()]

    return parse


def _shown(name: str, value: str) -> str:
    if name in SECRET_OPTIONS:
        return REDACTED
    shown = repr(without_user(value) if name.lower().endswith("url") else value)
    return shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}… ({len(value)} characters)"
