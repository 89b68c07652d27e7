"""Templates of lines: `--format '%k %v\\n'` of `read` and `consume` prints messages, of `produce` reads them
(ADM-77)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import typer

_TOKENS: Final = re.compile(
    r"%(?:(?P<percent>%)|(?P<verb>[A-Za-z])(?:\{(?P<how>[^{}]*)\})?)|\\(?P<escape>x[0-9A-Fa-f]{2}|.)"
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_OPTION: Final = "--format"


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: its meaning, and its forms by the words in braces."""

    meaning: str
    forms: Mapping[str, Callable[[Any], str]]
    """The form "" is that without braces."""


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _plain(meaning: str) -> Verb:
    return Verb(meaning, {"": str})


def _bytes(meaning: str) -> Verb:
    """Returns a verb of bytes, whose text is a text already where a schema decoded it."""
    forms: dict[str, Callable[[Any], str]] = {
        "": lambda data: data if isinstance(data, str) else data.decode(errors="replace"),
        "hex": lambda data: _raw(data).hex(),
        "base64": lambda data: base64.b64encode(_raw(data)).decode(),
    }
    return Verb(meaning, forms)


def _raw(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _moment(meaning: str) -> Verb:
    return Verb(meaning, {"": str, "s": lambda ms: str(ms // 1000), "iso": lambda ms: _time(ms) if ms else ""})


VERBS: Final = {
    "t": _plain("topic"),
    "p": _plain("partition, -1 without"),
    "o": _plain("message id"),
    "k": _bytes("key"),
    "K": _plain("bytes of the key"),
    "O": _bytes("ordering key"),
    "v": _bytes("value"),
    "V": _plain("bytes of the payload"),
    "h": Verb(
        "properties",
        {
            "": lambda properties: " ".join(f"{name}={value}" for name, value in properties.items()),
            "json": lambda properties: json.dumps(properties, ensure_ascii=False),
        },
    ),
    "H": _plain("number of properties"),
    "d": _moment("publish time in ms"),
    "e": _moment("event time in ms, 0 without"),
    "x": _plain("producer"),
    "r": _plain("redelivery count"),
}
"""Verbs by their letters, which are those of Redpanda's `rpk` for what both have."""
_READ: Final = ("k", "v", "e")
"""Verbs of a template that `produce` reads."""


@dataclass(frozen=True, slots=True)
class Template:
    """A template: texts, and between them verbs with their forms."""

    parts: tuple[str | tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Reads a template. Raises typer.BadParameter, which names a verb that there is none of."""
        parts: list[str | tuple[str, str]] = []
        at = 0
        for token in _TOKENS.finditer(text):
            parts.append(_literal(text[at : token.start()]))
            at = token.end()
            if token["verb"]:
                parts.append(_verb(token["verb"], token["how"] or ""))
            else:
                parts.append("%" if token["percent"] else _escaped(token["escape"]))
        return cls((*parts, _literal(text[at:])))

    def write(self, value_of: Callable[[str], Any]) -> str:
        """Writes a message, of which `value_of` returns the value for a verb."""
        texts = (
            part if isinstance(part, str) else VERBS[part[0]].forms[part[1]](value_of(part[0])) for part in self.parts
        )
        return "".join(texts)

    def pattern(self) -> re.Pattern[bytes]:
        """Returns the pattern of lines that `produce` reads, a group for each verb. Raises typer.BadParameter."""
        letters = [part[0] for part in self.parts if not isinstance(part, str)]
        if set(letters) - set(_READ) or len(set(letters)) < len(letters) or "v" not in letters:
            known = ", ".join(f"%{letter} {VERBS[letter].meaning}" for letter in _READ)
            raise typer.BadParameter(f"a line is read by {known}: %v, and each once at most", param_hint=_OPTION)
        groups = []
        for part in self.parts:
            if isinstance(part, str):
                groups.append(re.escape(part.encode()))
            else:
                groups.append(b"(?P<%s>.*%s)" % (part[0].encode(), b"" if part[0] == letters[-1] else b"?"))
        text = b"".join(groups).removesuffix(re.escape(b"\n"))  # what stands between lines is --separator
        return re.compile(text, re.DOTALL)


def _literal(text: str) -> str:
    if "%" in text:
        raise typer.BadParameter(f"% begins a verb, and is written %% itself; {_known()}", param_hint=_OPTION)
    return text


def _escaped(text: str) -> str:
    if len(text) == 3:
        return chr(int(text[1:], 16))
    if text not in _ESCAPES:
        raise typer.BadParameter(rf"\{text} is none of \n \t \r \0 \\ and \x1f", param_hint=_OPTION)
    return _ESCAPES[text]


def _verb(letter: str, how: str) -> tuple[str, str]:
    if letter not in VERBS:
        raise typer.BadParameter(f"%{letter} is no verb: {_known()}", param_hint=_OPTION)
    forms = VERBS[letter].forms
    if how not in forms:
        known = ", ".join(f"%{letter}{{{form}}}" if form else f"%{letter}" for form in forms)
        raise typer.BadParameter(f"%{letter}{{{how}}} is none of {known}", param_hint=_OPTION)
    return letter, how


def _known() -> str:
    return "verbs are " + ", ".join(f"%{letter} {verb.meaning}" for letter, verb in VERBS.items())
