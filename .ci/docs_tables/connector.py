"""Tables of options and columns in docs/connector-*.md, whose pages hold the meanings, the order and the headings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from spark_pulsar.connector.columns import METADATA_COLUMNS, READ_COLUMNS, WRITE_COLUMNS, Column
from spark_pulsar.connector.options.options import OPTIONS
from spark_pulsar.connector.options.table import ANY, READ, WRITE, Option, Use

_NAME: Final = re.compile(r"\| `([^`]+)` \|")
_BAR: Final = re.compile(r"(?<!\\)\|")


def tables(pages: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Returns the tables of the connector's pages, by page and mark. Raises ValueError for a row without a meaning, for
    one that names nothing of the package, and for one that is not there."""
    options = {option.name: _option_cells(option) for option in OPTIONS}
    made: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {
        "connector-options.md": {"options": options},
        "connector-read.md": {
            "columns of reads": _column_cells(READ_COLUMNS),
            "metadata columns": _column_cells(METADATA_COLUMNS),
        },
        "connector-write.md": {"columns of writes": _column_cells(WRITE_COLUMNS)},
    }
    return {page: {mark: _current(pages[page], mark, cells) for mark, cells in of.items()} for page, of in made.items()}


def _current(page: str, mark: str, cells: Mapping[str, tuple[str, ...]]) -> str:
    """Returns the text between the marks of a page with the cells, by name, that come before the meanings."""
    text = page.partition(f"<!-- {mark} -->")[2].partition(f"<!-- /{mark} -->")[0].strip()
    missing, lines = dict(cells), []
    for line in text.splitlines():
        if (named := _NAME.match(line)) is not None:
            meaning = _BAR.split(line)[-2].strip()
            if named[1] not in missing or not meaning:
                raise ValueError(f"{mark}: {named[1]} is no name of the package, is there twice or has no meaning")
            line = f"| `{named[1]}` | {' | '.join(missing.pop(named[1]))} | {meaning} |"
        lines.append(line)
    if missing:
        raise ValueError(f"{mark}: no row for {', '.join(missing)}")
    return "\n".join(lines)


def _option_cells(option: Option) -> tuple[str, ...]:
    return option.kind, option.default or "–", _where(option.uses)


def _column_cells(columns: Iterable[Column]) -> dict[str, tuple[str, ...]]:
    return {column.name: (" or ".join(column.types),) for column in columns}


def _where(uses: tuple[Use, ...]) -> str:
    return {ANY: "all", READ: "read", WRITE: "write"}.get(uses, ", ".join(uses))
