"""Values on standard output as a table, text, JSON or YAML: the option `--output` of every command that shows one."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from spark_pulsar.cli.output.terminal import console
from spark_pulsar.model.printable import one_line, printable


class Format(StrEnum):
    """Forms of a value on standard output."""

    TABLE = "table"
    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


Output = Annotated[
    Format | None,
    typer.Option(
        "--output",
        "-o",
        help="table, text (a line each, columns divided by tabs), json or yaml.",
        show_default="table on a terminal, text in a pipe",
        case_sensitive=False,
    ),
]
"""The option of a command that shows a value: a parameter `output: Output = None`."""
_NO_STYLES: Final[Mapping[str, str]] = {}
_NAME_AND_VALUE: Final = ("name", "value")


def show(
    value: Any,
    output: Format | None = None,
    *,
    columns: Sequence[str] = (),
    styles: Mapping[str, str] = _NO_STYLES,
) -> None:
    """Prints a value: a list of objects is a row each, an object a row for each of its members, anything else a line.
    `columns` are the members that tables and text show, in order; JSON and YAML are always the whole value. `styles` of
    rich are those of a row whose first column holds their name."""
    chosen = output or (Format.TABLE if sys.stdout.isatty() else Format.TEXT)
    if chosen is Format.JSON:
        sys.stdout.write(f"{json.dumps(value, indent=2, ensure_ascii=False)}\n")
    elif chosen is Format.YAML:
        sys.stdout.write(_yaml(value))
    elif chosen is Format.TABLE and isinstance(value, (Mapping, list)) and not _is_plain(value):
        _print_table(*_rows(value, columns), styles)
    else:
        sys.stdout.write("".join("\t".join(map(_cell, row)) + "\n" for row in _rows(value, columns)[1]))


def _is_plain(value: Mapping[str, Any] | list[Any]) -> bool:
    """Returns whether a list has a line each in a table too."""
    return isinstance(value, list) and not any(isinstance(item, Mapping) for item in value)


def _rows(value: Any, columns: Sequence[str]) -> tuple[Sequence[str], list[Sequence[Any]]]:
    if isinstance(value, Mapping):
        return _NAME_AND_VALUE, list(_members("", value))
    if not isinstance(value, list):
        return ("",), [(value,)]
    if _is_plain(value):
        return ("",), [(item,) for item in value]
    names = columns or list(dict.fromkeys(name for row in value for name in row))
    return names, [[row.get(name) for name in names] for row in value]


def _members(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, member in value.items():
        if isinstance(member, Mapping) and member:
            yield from _members(f"{prefix}{name}.", member)
        else:
            yield f"{prefix}{name}", member


def _cell(value: Any) -> str:
    """Writes a value into one line, without tabs."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return one_line(text.replace("\t", " ").replace("\n", " "))


def _print_table(columns: Sequence[str], rows: list[Sequence[Any]], styles: Mapping[str, str]) -> None:
    from rich import box
    from rich.table import Column, Table
    from rich.text import Text

    numbers = [
        bool(rows) and all(isinstance(row[at], int | float) and not isinstance(row[at], bool) for row in rows)
        for at in range(len(columns))
    ]
    headed = [
        Column(name, justify="right" if number else "left", overflow="fold")
        for name, number in zip(columns, numbers, strict=True)
    ]
    table = Table(*headed, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(_cell(cell)) for cell in row), style=styles.get(str(row[0])))
    console().print(table)


def _yaml(value: Any) -> str:
    import yaml

    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    if printable(text) != text:  # YAML would have some controls as they are, outside quotes
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=False)
    return text.removesuffix("...\n")
