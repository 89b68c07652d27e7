"""Tables in Markdown, and the marks between which a page holds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table; a bar within a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in lines)


def with_tables(page: str, tables: Mapping[str, str]) -> str:
    """Replaces the tables between the marks of a page, `<!-- NAME -->` and `<!-- /NAME -->`."""
    for name, text in tables.items():
        before, begin, rest = page.partition(f"<!-- {name} -->")
        _, end, after = rest.partition(f"<!-- /{name} -->")
        if not (begin and end):
            raise ValueError(f"no marks of the table {name!r}")
        page = f"{before}{begin}\n\n{text}\n\n{end}{after}"
    return page
