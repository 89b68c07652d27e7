"""Forms of a printed message, for the option `--format`: names of forms, and templates."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from spark_pulsar.cli.messages.templates import Template


class MessageFormat(StrEnum):
    """Forms of a printed message."""

    TEXT = "text"
    JSON = "json"
    HEX = "hex"


def form_of(text: str) -> MessageFormat | Template:
    """Returns the form that --format names; a template has a verb or an escape. Raises typer.BadParameter."""
    if "%" in text or "\\" in text:
        from spark_pulsar.cli.messages.templates import Template

        return Template.parse(text)
    try:
        return MessageFormat(text.lower())
    except ValueError:
        want = f"want {', '.join(MessageFormat)}, or a template such as '%k %v\\n'; got {text!r}"
        raise typer.BadParameter(want, param_hint="--format") from None
