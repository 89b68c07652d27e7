"""Tables of options and columns in docs/connector-*.md, whose pages hold the meanings, the order and the headings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from spark_pulsar.connector.columns import METADATA_COLUMNS, READ_COLUMNS, WRITE_COLUMNS, Column
from spark_pulsar.connector.options.java_settings import JAVA_SETTINGS, PREFIXES
from spark_pulsar.connector.options.options import OPTIONS
from spark_pulsar.connector.options.table import ANY, READ, UNSUPPORTED, WRITE, Option, Use

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
    current = {
        page: {mark: _current(pages[page], mark, cells) for mark, cells in of.items()} for page, of in made.items()
    }
    return current | {"migrating.md": _java_tables()}


def _java_tables() -> dict[str, str]:
    """Returns the tables of the settings of the Java client, by mark."""
    read_as = [(setting.name, f"`{setting.option}`") for setting in JAVA_SETTINGS if setting.option]
    read_as += [(option.name, "the same") for option in OPTIONS if option.name.startswith(PREFIXES)]
    reasons: dict[str, list[str]] = {}
    for setting in JAVA_SETTINGS:
        if not setting.option:
            reasons.setdefault(setting.reason, []).append(setting.name)
    without = [("`, `".join(names), reason) for reason, names in reasons.items()]
    refused = [(name, hint) for name, hint in UNSUPPORTED.items() if name.startswith(PREFIXES)]
    rows = {"java settings": read_as, "java settings without effect": without, "java settings refused": refused}
    heads = {"java settings": "Read as", "java settings without effect": "Reason", "java settings refused": "Instead"}
    return {
        mark: "\n".join(
            (f"| Setting | {heads[mark]} |", "| --- | --- |", *(f"| `{name}` | {cell} |" for name, cell in of))
        )
        for mark, of in rows.items()
    }


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
