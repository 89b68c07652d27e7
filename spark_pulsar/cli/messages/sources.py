"""Messages that `produce` sends: of its options, of files, of lines and of JSON lines."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Final

import typer

from spark_pulsar.cli.messages.connecting import failed
from spark_pulsar.cli.messages.encoding import Encoder, Unencodable
from spark_pulsar.cli.messages.records import InvalidRecord, Outgoing, outgoing_of
from spark_pulsar.cli.messages.templates import Template
from spark_pulsar.cli.values import time_s

MOST_BYTES: Final = 128 << 20
"""Bytes of one line or file; far more than a broker takes in a message."""
_BLOCK_BYTES: Final = 1 << 16
_ESCAPES: Final = {r"\n": b"\n", r"\r": b"\r", r"\t": b"\t", r"\0": b"\0", r"\\": b"\\"}
STDIN: Final = Path("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Sources of messages, with keys, properties and times for those without."""

    texts: Sequence[str] = ()
    files: Sequence[Path] = ()
    lines: Sequence[Path] = ()
    are_json: bool = False
    separator: str = r"\n"
    template: Template | None = None
    """Form of a line, which is the value alone without it."""
    key: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    delay_ms: int | None = None
    is_encoded: bool = False
    """Encodes values by the schema of the topic."""

    def __post_init__(self) -> None:
        if self.are_json and (self.texts or self.files):
            want = "lines of JSON are those of --lines or of standard input"
            raise typer.BadParameter(want, param_hint="--json-lines")
        if [*self.files, *self.lines].count(STDIN) > 1:
            raise typer.BadParameter("standard input can be read once", param_hint="--file, --lines")
        if self.template is not None:
            self.template.pattern()
            if self.are_json or self.texts or self.files:
                raise typer.BadParameter("a template is one of plain lines", param_hint="--format")
        _separator(self.separator)

    @property
    def has_lines(self) -> bool:
        """Returns whether lines are among the messages, whose number is known at their end."""
        return bool(self.lines) or not (self.texts or self.files)

    def messages(self, encoder: Encoder | None = None) -> Iterator[Outgoing]:
        """Yields the messages: the texts, then files, then lines; those of standard input if nothing else is given."""
        for number, text in enumerate(self.texts, start=1):
            value = text.encode(errors="surrogateescape")
            yield self._with_options(Outgoing(_encoded(value, encoder, f"message {number}")))
        for path in self.files:
            yield self._with_options(Outgoing(_content(path)))
        for path in self.lines or (() if self.texts or self.files else (STDIN,)):
            yield from self._from_lines(path, encoder)

    def _from_lines(self, path: Path, encoder: Encoder | None) -> Iterator[Outgoing]:
        pattern = None if self.template is None else self.template.pattern()
        for number, line in enumerate(_split(path, _separator(self.separator)), start=1):
            where = f"{_name(path)}, line {number}"
            if pattern is not None:
                yield self._with_options(_matched(pattern, line, encoder, where))
            elif not self.are_json:
                yield self._with_options(Outgoing(_encoded(line, encoder, where)))
            elif line.strip():
                try:
                    message = outgoing_of(line, None if encoder is None else encoder.encode)
                except (InvalidRecord, Unencodable) as error:
                    raise failed(f"{where}: {error}") from None
                yield self._with_options(message)

    def _with_options(self, message: Outgoing) -> Outgoing:
        """Adds the values of the options to messages without a value of their own."""
        is_delayed = message.deliver_after_ms is not None or message.deliver_at_ms is not None
        return replace(
            message,
            key=message.key if message.key is not None else self.key,
            properties={**self.properties, **message.properties},
            deliver_after_ms=message.deliver_after_ms if is_delayed else self.delay_ms,
        )


def _matched(pattern: re.Pattern[bytes], line: bytes, encoder: Encoder | None, where: str) -> Outgoing:
    """Returns the message of a line of a template."""
    match = pattern.fullmatch(line)
    if match is None:
        raise failed(f"{where}: not of the form of --format")
    parts = match.groupdict()
    time_ms = parts.get("e")
    if time_ms is not None and not time_ms.isdigit():
        raise failed(f"{where}: want an event time in milliseconds, got {time_ms.decode(errors='replace')!r}")
    try:
        key = parts["k"].decode() if "k" in parts else None
    except UnicodeDecodeError:
        raise failed(f"{where}: the key is not UTF-8") from None
    return Outgoing(
        _encoded(parts["v"], encoder, where), key or None, event_time_ms=None if time_ms is None else int(time_ms)
    )


def _encoded(value: bytes, encoder: Encoder | None, where: str) -> bytes:
    if encoder is None:
        return value
    try:
        return encoder.encode_text(value)
    except Unencodable as error:
        raise failed(f"{where}: {error}") from None


def delay_ms(text: str | None) -> int | None:
    """Reads the value of --delay."""
    if text is None:
        return None
    seconds = time_s(text)
    if seconds < 0:
        raise typer.BadParameter(f"want a time such as 30s, got {text!r}", param_hint="--delay")
    return seconds * 1000


def _separator(text: str) -> bytes:
    separator = b""
    at = 0
    while at < len(text):
        escape = text[at : at + 2]
        if text[at] == "\\" and escape not in _ESCAPES:
            known = " ".join(_ESCAPES)
            raise typer.BadParameter(f"{escape} is none of {known}", param_hint="--separator")
        separator += _ESCAPES.get(escape, text[at].encode(errors="surrogateescape"))
        at += 2 if escape in _ESCAPES else 1
    if not separator:
        raise typer.BadParameter("want at least one character", param_hint="--separator")
    return separator


def _content(path: Path) -> bytes:
    with ExitStack() as stack:
        content = _opened(path, stack).read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise failed(f"{_name(path)} has more than {MOST_BYTES} bytes")
    return content


def _split(path: Path, separator: bytes) -> Iterator[bytes]:
    """Yields what stands between separators, byte by byte; the last one may be missing."""
    rest = bytearray()
    searched = 0
    with ExitStack() as stack:
        file = _opened(path, stack)
        while block := (file.read1(_BLOCK_BYTES) if hasattr(file, "read1") else file.read(_BLOCK_BYTES)):
            rest += block
            begin = 0
            while (end := rest.find(separator, max(begin, searched))) >= 0:
                yield bytes(rest[begin:end])
                begin = end + len(separator)
            del rest[:begin]
            searched = max(0, len(rest) - len(separator) + 1)
            if len(rest) > MOST_BYTES:
                raise failed(f"{_name(path)} has a line of more than {MOST_BYTES} bytes")
    if rest:
        yield bytes(rest)


def _opened(path: Path, stack: ExitStack) -> BinaryIO:
    if path == STDIN:
        return sys.stdin.buffer
    try:
        return stack.enter_context(path.open("rb"))
    except OSError as error:
        raise failed(f"{path} cannot be read: {error.strerror}") from None


def _name(path: Path) -> str:
    return "standard input" if path == STDIN else str(path)
