"""Messages on standard output: a line each, as text, as an object of JSON or with the payload in hexadecimal; what a
terminal would obey is escaped (SEC-86)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import typer

from spark_pulsar.cli.messages.connecting import failed
from spark_pulsar.cli.messages.decoding import Decoder
from spark_pulsar.cli.messages.forms import MessageFormat
from spark_pulsar.cli.messages.records import id_of, is_null, record_of, schema_version
from spark_pulsar.cli.messages.templates import Template
from spark_pulsar.model.printable import one_line

if TYPE_CHECKING:
    import pulsar


class Printer:
    """The lines of messages. Each is written out at once, so that a pipe has every message received so far."""

    def __init__(self, form: MessageFormat | Template, decoder: Decoder | None, *, values_only: bool = False) -> None:
        self._form = form
        self._decoder = decoder
        self._values_only = values_only
        if values_only and isinstance(form, Template):
            raise typer.BadParameter("a template says what is printed: %v is the value", param_hint="--values-only")
        self._is_unchanged = isinstance(form, Template) or (values_only and form is MessageFormat.TEXT)
        """A pipe gets the payloads' text as it is, with its control characters."""

    def print(self, message: pulsar.Message) -> None:
        """Prints a message. Raises LostOutput."""
        try:
            line = self._line(message)
        except UnicodeDecodeError:
            raise failed(f"message {id_of(message)} has a key or properties that are not UTF-8") from None
        if not isinstance(self._form, Template):
            line += "\n"
        if self._is_unchanged and not sys.stdout.isatty():
            sys.stdout.buffer.write(line.encode(errors="replace"))
        else:
            sys.stdout.write(line)
        sys.stdout.flush()

    def _line(self, message: pulsar.Message) -> str:
        if isinstance(self._form, Template):
            return self._form.write(partial(self._value, message))
        if self._form is MessageFormat.JSON:
            record = record_of(message, self._decoder)
            if self._values_only:
                record = {name: record[name] for name in ("value", "value_base64") if name in record}
            return json.dumps(record, ensure_ascii=False)
        value: str = message.data().hex() if self._form is MessageFormat.HEX else self._text(message)
        if self._values_only:
            return value
        key = message.partition_key()
        words = [str(id_of(message)), *([f"[{one_line(key)}]"] if key else [])]
        words += [one_line(f"{name}={content}") for name, content in message.properties().items()]
        return " ".join((*words, value))

    def _value(self, message: pulsar.Message, letter: str) -> Any:
        """Returns what a verb of a template prints."""
        if letter == "v":
            return self._text(message, None)
        return _VALUES[letter](message)

    def _text(self, message: pulsar.Message, otherwise: str | None = "replace") -> Any:
        """Returns the value as text; bytes that no schema decodes as they are, if there is no way `otherwise`."""
        payload = message.data()
        if self._decoder is not None and not is_null(message):
            key, version = message.partition_key(), schema_version(message)
            decoded = self._decoder.decode(message.topic_name(), version, key, payload)
            if decoded is not None and decoded.schema not in ("STRING", "JSON"):  # those are readable as they are
                value = decoded.value
                return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return payload if otherwise is None else payload.decode(errors=otherwise)


_VALUES: Final[dict[str, Callable[[pulsar.Message], Any]]] = {
    "t": lambda message: message.topic_name(),
    "p": lambda message: id_of(message).partition,
    "o": id_of,
    "k": lambda message: message.partition_key(),
    "K": lambda message: len(message.partition_key().encode()),
    "O": lambda message: message.ordering_key(),
    "V": lambda message: len(message.data()),
    "h": lambda message: dict(message.properties()),
    "H": lambda message: len(message.properties()),
    "d": lambda message: message.publish_timestamp(),
    "e": lambda message: message.event_timestamp(),
    "x": lambda message: message.producer_name(),
    "r": lambda message: message.redelivery_count(),
}
"""Values of a message for the verbs of a template, but that of its payload."""
