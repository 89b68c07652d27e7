"""Table of the topics of a broker: rows, their order, and their cells."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Sequence
from typing import Final

import typer

from spark_pulsar.cli.admin.rest import Admin, refusal_text
from spark_pulsar.cli.topics.figures import Figures, Sampler
from spark_pulsar.model.printable import one_line

SORTS: Final = {
    **{"in": "rate_in", "out": "rate_out"},
    **{name: name for name in ("backlog", "unacked", "storage", "producers", "consumers", "topic")},
}
"""Sort keys, and the figures that they sort by."""
STATISTICS: Final = "/admin/v2/broker-stats/topics"
HEADS: Final = (
    *("TOPIC", "IN/S", "OUT/S", "MB IN/S", "MB OUT/S", "BACKLOG", "UNACKED", "PROD", "CONS", "SUBS"),
    "STORAGE",
)
_UNITS: Final = ("", "K", "M", "G", "T")


class TopicTable:
    """Rows of the topics of one broker, from samples of its statistics."""

    def __init__(self, admin: Admin, scope: str, *, each_partition: bool) -> None:
        self._admin = admin
        self._scope = scope
        self._each_partition = each_partition
        self._sampler = Sampler()
        self.rows: list[Figures] = []
        self.failure = ""

    def refresh(self) -> None:
        """Renews the rows. Ends the command when the broker does not answer."""
        statistics = self._admin.get(STATISTICS) or {}
        self.rows = self._sampler.rows(statistics, time.monotonic(), self._scope, each_partition=self._each_partition)
        self.failure = ""

    def check_scope(self) -> None:
        """Ends the command when the tenant or the namespace to show is not there."""
        if self._scope and not self.rows:
            topics = "" if "/" not in self._scope else "/topics"
            _, refusal = self._admin.get_or_refusal(f"/admin/v2/namespaces/{self._scope}{topics}")
            if refusal is not None:
                why = f"{self._scope}: {refusal_text(refusal)}; spark-pulsar topics tree shows those that are there"
                typer.echo(f"spark-pulsar: {why}", err=True)
                raise typer.Exit(1)

    def try_to_refresh(self) -> None:
        """Renews the rows; a broker that does not answer leaves them as they are, with its failure beside them."""
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                self.refresh()
        except typer.Exit:
            self.failure = said.getvalue().strip().removeprefix("spark-pulsar: ")

    def sorted(self, sort: str) -> list[Figures]:
        """Returns the rows by a sort key, the largest first, names in order."""
        name = SORTS[sort]
        ordered = sorted(self.rows, key=lambda row: row.topic)
        if name != "topic":
            ordered.sort(key=lambda row: getattr(row, name), reverse=True)
        return ordered


def cells_of(row: Figures) -> tuple[str, ...]:
    """Writes a row."""
    return (
        f"{short(row.topic)} ({row.partitions})" if row.partitions > 1 else short(row.topic),
        *(f"{rate:,.0f}" if rate >= 10 or not rate else f"{rate:.1f}" for rate in (row.rate_in, row.rate_out)),
        f"{row.mb_in:.2f}",
        f"{row.mb_out:.2f}",
        *(f"{number:,}" for number in (row.backlog, row.unacked, row.producers, row.consumers, row.subscriptions)),
        size_text(row.storage),
    )


def without_start(name: str, width: int) -> str:
    """Cuts the start of a name that is longer: the ends of names differ."""
    return name if len(name) <= width else f"…{name[len(name) - max(1, width) + 1 :]}"


def plain_table(rows: Sequence[Figures]) -> str:
    """Writes a table whose columns stand below one another, a row a line however wide."""
    lines = [HEADS, *map(cells_of, rows)]
    first, *others = (max(map(len, column)) for column in zip(*lines, strict=True))
    return "".join(
        "  ".join((line[0].ljust(first), *(cell.rjust(width) for cell, width in zip(line[1:], others, strict=True))))
        + "\n"
        for line in lines
    )


def short(topic: str) -> str:
    """Returns a topic's name, on one line, without what most have: `persistent://`, and `public/default/`."""
    return one_line(topic.removeprefix("persistent://").removeprefix("public/default/"))


def size_text(size: float) -> str:
    """Writes a size in the units of the command line."""
    at = 0
    while size >= 1000 and at < len(_UNITS) - 1:
        size /= 1024
        at += 1
    return f"{size:.1f}{_UNITS[at]}" if at and size < 100 else f"{size:.0f}{_UNITS[at]}"


def sort_key(text: str) -> str:
    """Returns the name of a sort key. Raises typer.BadParameter."""
    if text.lower() not in SORTS:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(SORTS)}", param_hint="--sort")
    return text.lower()
