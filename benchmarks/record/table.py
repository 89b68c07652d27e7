"""The table of `docs/benchmarks.md`, made from the rows and their latest results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from .results import Result
from .rows import Goal, Row

HEAD = ("Figure", "Ours", "Peer", "Ratio", "Goal", "Date", "Command")


def page_tables(rows: Iterable[Row], results: Mapping[str, Result]) -> dict[str, str]:
    """Returns the texts between the marks of the page: `machines` and `figures`."""
    return {"machines": _machines(results.values()), "figures": _figures(rows, results)}


def verdict(row: Row, result: Result) -> str:
    """Returns the goal of a row, and whether the result meets it; a dash when the row has none."""
    if row.goal is None:
        return "–"
    value = measured(row.goal, result)
    if value is None:
        return row.goal.text
    return f"{row.goal.text}: {'met' if row.goal.is_met_by(value) else '**missed**'}"


def measured(goal: Goal, result: Result) -> float | None:
    """Returns the figure that a goal is for; None when it was not measured."""
    if not goal.of_ratio:
        return result.ours
    return result.ours / result.peer if result.ours is not None and result.peer else None


def shown(value: float | None) -> str:
    """Returns a figure with three digits that count."""
    if value is None:
        return "–"
    if abs(value) >= 999_500:
        return f"{value / 1e6:.3g} M"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _figures(rows: Iterable[Row], results: Mapping[str, Result]) -> str:
    lines = [HEAD, ("---",) * len(HEAD)]
    of_group = command = ""
    for row in rows:
        if row.group != of_group:
            of_group = row.group
            lines.append((f"**{of_group}**", *("",) * (len(HEAD) - 1)))
            command = ""
        lines.append(
            (*_cells(row, results.get(row.name)), "the same" if row.command == command else f"`{row.command}`")
        )
        command = row.command
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(row: Row, result: Result | None) -> tuple[str, ...]:
    figure = f"{row.figure}, {row.unit}" if row.unit else row.figure
    if result is None:
        return figure, "–", "–", "–", row.goal.text if row.goal else "–", "not run yet"
    peer = "–"
    if result.peer is not None:
        peer = f"{shown(result.peer)} ({result.against or row.against})"
    ratio = f"{result.ours / result.peer:.2f} ×" if result.ours is not None and result.peer else "–"
    day = f"{result.date}, failed {result.failed}".lstrip(", ") if result.failed else result.date
    return figure, shown(result.ours), peer, ratio, verdict(row, result), day


def _machines(results: Iterable[Result]) -> str:
    days: dict[str, set[str]] = defaultdict(set)
    for result in results:
        if result.date:
            days[result.machine].add(result.date)
    lines = [f"- {machine}: {_span(sorted(on))}" for machine, on in sorted(days.items(), key=lambda each: min(each[1]))]
    return "\n".join(lines)


def _span(days: list[str]) -> str:
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
