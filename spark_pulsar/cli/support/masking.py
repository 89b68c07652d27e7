"""Masking of secrets in texts of any origin: settings by their names, and tokens, keys and passwords (SEC-91).

A log has lines of any length that strangers have a part in: every pattern takes a time that grows with the text alone.
"""

from __future__ import annotations

import re
from typing import Any, Final

from spark_pulsar.broker.configuration.keys import holds_secret
from spark_pulsar.client.secret import REDACTED

_WORDS: Final = (
    r"secret|passw(?:or)?d|passphrase|\bpwd|token|auth_?params|credential|(?:private|access|api)[_.-]?key|cookie"
    r"|authorization(?!\w)"
)
_NAMES: Final = re.compile(_WORDS, re.IGNORECASE)
_KEY: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_KEY_END: Final = re.compile(r"-----END [A-Z ]*PRIVATE KEY-----")
_KEY_LINES: Final = re.compile(r"(?:[\w+/=]+\r?\n)*\Z")
_WEB_TOKEN: Final = re.compile(r"eyJ[\w.-]*")
_PATTERNS: Final = (
    re.compile(r"(?<=;base64,)[\w+/=-]+"),
    re.compile(r"(?<=://)[^\s/\"'<>]+(?=@)"),  # a user and a password before a host
    re.compile(r"(?i)(?:(?<=\bcookie:)|(?<=\bauthorization:))[^\n\"']+"),
    re.compile(r"(?i)(?<=\bbearer )\S+|(?<=\bbasic )[\w+/=-]{4,}"),
    re.compile(r"""(?i)(?<=\btoken:)[^\s"',}]+"""),
)
_SETTING: Final = re.compile(
    rf"(?P<name>(?i:{_WORDS})[\w.-]{{0,64}}\\{{0,8}}[\"']?\s{{0,8}}[=:]\s{{0,8}})"
    # a text in quotes, those of JSON in JSON too, to its end or that of the line; or a word
    r"""(?P<value>(?P<quote>\\{0,8}["'])(?P<text>[^\n]*?)(?:(?<!\\)(?P=quote)|$)|[^\s"']+)""",
    re.MULTILINE,
)
_ASSIGNMENT: Final = re.compile(r"(?P<name>[\s#!]*[\w.-]+)(?:\s*[=:]\s*|\s+)\S.*")


def masked(text: str) -> str:
    """Returns a text without what may be a secret in it."""
    text = _KEY.sub(REDACTED, _without_end_of_key(text))
    text = _WEB_TOKEN.sub(lambda run: REDACTED if run[0].count(".") > 1 else run[0], text)
    for pattern in _PATTERNS:
        text = pattern.sub(REDACTED, text)
    return _SETTING.sub(lambda match: f"{match['name']}{REDACTED}", text)


def _without_end_of_key(text: str) -> str:
    """Masks the lines of a private key whose beginning was cut off."""
    end = _KEY_END.search(text)
    if end is None or _KEY.search(text, 0, end.end()) is not None:
        return text
    before = text[: end.start()]
    lines = before.splitlines(keepends=True)
    while lines and _KEY_LINES.fullmatch(lines[-1]):
        lines.pop()
    return "".join(lines) + REDACTED + text[end.end() :]


def masked_value(value: Any, name: str = "", *, inherits: bool = True) -> Any:
    """Returns a value of JSON without secrets, which names of members show. `inherits`: what is below a member with the
    name of a secret is one; not in statistics, whose names are those of topics and subscriptions."""
    if isinstance(value, dict):
        above = name if inherits and is_secret(name) else ""
        return {
            masked(str(key)): masked_value(member, above or str(key), inherits=inherits)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [masked_value(member, name, inherits=inherits) for member in value]
    if isinstance(value, str):
        return REDACTED if value and is_secret(name) else masked(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return REDACTED if is_secret(name) else value
    return value


def masked_settings(text: str) -> str:
    """Returns a file of `name=value` lines, as Java reads them, without secrets."""
    lines: list[str] = []
    is_secrets_rest = False  # after a backslash at the end of a secret's line
    for line in _KEY.sub(REDACTED, _without_end_of_key(text)).splitlines():
        shown = REDACTED if is_secrets_rest else _line(line)
        is_secrets_rest = line.endswith("\\") and (is_secrets_rest or shown.endswith(REDACTED))
        lines.append(f"{shown}\n")
    return "".join(lines)


def _line(line: str) -> str:
    assignment = _ASSIGNMENT.fullmatch(line)
    if assignment and is_secret(assignment["name"].strip().lstrip("#! ")):
        return f"{assignment['name']}={REDACTED}"
    if line.lstrip().startswith(("#", "!")) and _NAMES.search(line):
        return f"# {REDACTED}"  # a sentence, which may end in the secret
    return masked(line)


def is_secret(name: str) -> bool:
    """Returns whether the value of a setting of this name is, or may be, a secret."""
    return holds_secret(name) or bool(_NAMES.search(name))
