"""The live table of `top`: a screen of the terminal that keys sort, and that ends at q or Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from spark_pulsar.cli.output.terminal import console
from spark_pulsar.cli.topics.topic_table import HEADS, TopicTable, cells_of, without_start

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_KEYS: Final = {
    **{"i": "in", "o": "out", "b": "backlog", "u": "unacked", "s": "storage"},
    **{"p": "producers", "c": "consumers", "t": "topic"},
}
_SORTED_HEADS: Final = {
    **{"in": "IN/S", "out": "OUT/S", "backlog": "BACKLOG", "unacked": "UNACKED", "storage": "STORAGE"},
    **{"producers": "PROD", "consumers": "CONS", "topic": "TOPIC"},
}
_LEFT_OUT_FIRST: Final = (
    "MB IN/S",
    "MB OUT/S",
    "SUBS",
    "STORAGE",
    "PROD",
    "CONS",
    "UNACKED",
    "OUT/S",
    "BACKLOG",
    "IN/S",
)
"""Columns that leave a narrow terminal to the names of topics, but the one that sorts."""
_NAME_WIDTH: Final = 24
_COLUMN_GAP: Final = 3
_AROUND_ROWS: Final = 4
"""Lines of the screen that are no rows: title, heads, their rule, keys."""


def show_live(topics: TopicTable, sort: str, interval_s: float, count: int) -> None:
    """Shows the table until q, Ctrl-C, or after `count` refreshes (0: never)."""
    from rich.live import Live

    topics.refresh()  # a broker or a tenant that is not there ends the command before there is a screen
    topics.check_scope()
    shown_on = console()
    done = 1
    screen = Live(console=shown_on, screen=True, auto_refresh=False)
    with _keys() as keyboard, contextlib.suppress(KeyboardInterrupt), screen as live:
        next_s = time.monotonic() + interval_s
        while True:
            live.update(_table(shown_on, topics, sort, interval_s), refresh=True)
            key = _key(keyboard, max(0.0, next_s - time.monotonic()))
            if key == "q":
                return
            sort = _KEYS.get(key, sort)
            if time.monotonic() >= next_s:
                if done == count:
                    return
                topics.try_to_refresh()
                done += 1
                next_s = time.monotonic() + interval_s


def _table(screen: Console, topics: TopicTable, sort: str, interval_s: float) -> RenderableType:
    from rich import box
    from rich.console import Group
    from rich.table import Column, Table
    from rich.text import Text

    rows = topics.sorted(sort)
    room = max(1, screen.height - _AROUND_ROWS)
    lines = [cells_of(row) for row in rows[:room]]
    shown, name_width = _columns(lines, screen.width, _SORTED_HEADS[sort])
    table = Table(
        *(
            Column(
                Text(HEADS[at], style="reverse" if HEADS[at] == _SORTED_HEADS[sort] else "bold"),
                justify="right" if at else "left",
                no_wrap=True,
                ratio=1 if not at else None,
            )
            for at in shown
        ),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        expand=True,
        show_edge=False,
    )
    for row, (name, *figures) in zip(rows, lines, strict=False):
        style = "bold" if row.rate_in or row.rate_out else ""
        cells = [without_start(name, name_width), *figures]
        table.add_row(*(Text(cells[at]) for at in shown), style=style)
    hidden = f", {len(rows) - room} more below" if len(rows) > room else ""
    title = Text(f"{len(rows)} topics{hidden}; every {interval_s:g} s; by {sort}", style="dim", no_wrap=True)
    if topics.failure:
        title = Text(f"trying again: {topics.failure}", style="bold red", no_wrap=True)
    keys = "sort: " + "  ".join(f"{key} {name}" for key, name in _KEYS.items()) + "   q quit"
    return Group(title, table, Text(keys, style="dim", no_wrap=True))


def _columns(lines: Sequence[Sequence[str]], width: int, sorted_head: str) -> tuple[list[int], int]:
    """Returns the columns that fit beside names of a readable width, and the width of the names."""
    widths = [max(map(len, column)) for column in zip(HEADS, *lines, strict=True)]
    shown = list(range(len(HEADS)))
    for head in _LEFT_OUT_FIRST:
        room = width - sum(widths[at] + _COLUMN_GAP for at in shown[1:])
        if room >= min(widths[0], _NAME_WIDTH):
            break
        if head != sorted_head:
            shown.remove(HEADS.index(head))
    return shown, max(1, width - sum(widths[at] + _COLUMN_GAP for at in shown[1:]))


@contextlib.contextmanager
def _keys() -> Iterator[int | None]:
    """Takes keys one by one, without Enter; None where standard input is no terminal."""
    import termios
    import tty

    if not sys.stdin.isatty():
        yield None
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        yield keyboard
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _key(keyboard: int | None, timeout_s: float) -> str:
    """Waits for a key, at most so long; empty without one."""
    if keyboard is None:
        time.sleep(timeout_s)
        return ""
    ready, _, _ = select.select([keyboard], [], [], timeout_s)
    return os.read(keyboard, 1).decode(errors="replace").lower() if ready else ""
