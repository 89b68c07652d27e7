"""Masking of secrets in texts of any origin: settings by their names, and tokens, keys and passwords (SEC-91)."""

from __future__ import annotations

import re
from typing import Any, Final

from spark_pulsar.broker.configuration.keys import holds_secret
from spark_pulsar.client.secret import REDACTED

_NAMES: Final = re.compile(r"secret|passw(?:or)?d|token|authparams|credential|privatekey", re.IGNORECASE)
_PATTERNS: Final = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]*"),  # a JSON Web Token
    re.compile(r"(?<=data:;base64,)[\w+/=-]+"),
    re.compile(r"(?<=://)[^/@\s\"']+(?=@)"),  # a user and a password before a host
    re.compile(r"(?i)(?<=\bbearer )\S+|(?<=\bbasic )[\w+/=-]{4,}"),
    re.compile(r"""(?i)(?<=\btoken:)[^\s"',}]+"""),
)
_SETTING: Final = re.compile(
    r"""(?P<name>["']?[\w.-]*(?i:secret|passw(?:or)?d|token|authparams|credentials?|privatekey)[\w.-]*["']?\s*[=:]\s*)"""
    r"""(?P<value>"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;}"']+)"""
)


def masked(text: str) -> str:
    """Returns a text without what may be a secret in it."""
    for pattern in _PATTERNS:
        text = pattern.sub(REDACTED, text)
    return _SETTING.sub(lambda match: f"{match['name']}{REDACTED}", text)


def masked_value(value: Any, name: str = "") -> Any:
    """Returns a value of JSON without secrets, which names of members show."""
    if isinstance(value, dict):
        return {key: masked_value(member, str(key)) for key, member in value.items()}
    if isinstance(value, list):
        return [masked_value(member, name) for member in value]
    if isinstance(value, str):
        return REDACTED if value and is_secret(name) else masked(value)
    return value


def masked_settings(text: str) -> str:
    """Returns a file of `name=value` lines without secrets."""
    return "".join(f"{_line(line)}\n" for line in text.splitlines())


def _line(line: str) -> str:
    name, separator, value = line.partition("=")
    if separator and value.strip() and is_secret(name.strip().lstrip("#! ")):
        return f"{name}={REDACTED}"
    return masked(line)


def is_secret(name: str) -> bool:
    """Returns whether the value of a setting of this name is, or may be, a secret."""
    return holds_secret(name) or bool(_NAMES.search(name))
