"""Help of commands and groups, as it fits 80 columns: flags whole, two examples, and the options of access at its end
(ADM-76)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from spark_pulsar.cli.frame.examples import WIDTH, examples_of, lines_of
from spark_pulsar.cli.values import ACCESS_PANEL

F = TypeVar("F", bound=Callable[..., Any])
_NUMBER: Final = r"-?[\d.]+"
_RANGE: Final = re.compile(rf"(?:(?P<low>{_NUMBER})<=)?x(?:<=(?P<high>{_NUMBER})|>=(?P<least>{_NUMBER}))")
_ENDLESS: Final = (1 << 31) - 1
"""Least of the greatest numbers that are limits of types, and of no use to a reader."""


class _Helping:
    """A command, or a group, whose help no column cuts; tables of rich cut flags that are longer than theirs."""

    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        """Writes the help: usage, text, arguments, options, commands, examples, options of access."""
        formatter.write(f"{_usage(ctx.command_path, self.collect_usage_pieces(ctx))}\n")
        self.format_help_text(ctx, formatter)
        arguments, options, access = [], [], []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            record = record[0].replace(" range>", ">"), _RANGE.sub(_in_words, record[1])
            if parameter.param_type_name == "argument":
                arguments.append(record)
            elif getattr(parameter, "rich_help_panel", None) == ACCESS_PANEL:
                access.append(record)
            else:
                options.append(record)
        for title, records in (("Arguments", arguments), ("Options", options), ("Commands", _commands(self, ctx))):
            _write_list(formatter, title, records)
        if examples := examples_of(self, ctx):
            with formatter.section("Examples"):
                indent = formatter.current_indent
                lines = (line for example in examples for line in lines_of(example, indent))
                formatter.write("".join(f"{'':>{indent}}{line}\n" for line in lines))
        _write_list(formatter, ACCESS_PANEL, access)


def _in_words(numbers: re.Match[str]) -> str:
    """Returns a range such as `0<=x<=65535` as people write it."""
    low, high = numbers["low"] or numbers["least"], numbers["high"]
    if high is None or (low is not None and float(high) >= _ENDLESS):
        return f"{low} or more"
    return f"up to {high}" if low is None else f"{low} to {high}"


def _usage(path: str, pieces: list[str]) -> str:
    line = f"Usage: {path} {' '.join(pieces)}"
    if len(line) <= WIDTH:
        return line
    group, _, name = path.rpartition(" ")
    return f"Usage: {group} \\\n         {name} {' '.join(pieces)}"


def _write_list(formatter: Any, title: str, records: list[tuple[str, str]]) -> None:
    if records:
        with formatter.section(title):
            indent = formatter.current_indent
            formatter.write_dl([(_wrapped(term, indent), text or " ") for term, text in records])


def _wrapped(term: str, indent: int) -> str:
    """Divides flags with many values between the values; nothing else is as wide."""
    lines = [""]
    for value in term.split("|"):
        if len(lines[-1]) + len(value) + indent >= WIDTH:
            lines.append(f"{'':>{indent + 4}}")
        lines[-1] += f"{value}|"
    return "\n".join(lines).removesuffix("|")


def _commands(command: Any, ctx: Any) -> list[tuple[str, str]]:
    if not isinstance(command, TyperGroup):
        return []
    shown = [(name, command.get_command(ctx, name)) for name in command.list_commands(ctx)]
    return [(name, _summary(one)) for name, one in shown if one is not None and not one.hidden]


def _summary(command: Any) -> str:
    """Returns the first sentence of a command's help."""
    text = " ".join((command.help or "").partition("\n\n")[0].split())
    sentence, stop, _ = text.partition(". ")
    return sentence + stop.strip()


class HelpfulCommand(_Helping, TyperCommand):
    """A command with this help."""


class HelpfulGroup(_Helping, TyperGroup):
    """A group with this help."""


class Commands(typer.Typer):
    """Commands of a group, all of them with this help."""

    def __init__(self, **settings: Any) -> None:
        given: dict[str, Any] = {"cls": HelpfulGroup, "no_args_is_help": True} | settings
        super().__init__(**given, rich_markup_mode=None)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], F]:
        """Adds a command. `epilog`: its examples, one a line; otherwise they are made of its parameters."""
        given: dict[str, Any] = {"cls": HelpfulCommand} | settings
        return super().command(name, **given)


def examples(*lines: str) -> str:
    """Returns the epilog of a command with these examples, without the name of the program."""
    return "\n".join(lines)
