"""The command `spark-pulsar move` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from spark_pulsar.cli.output.formats import Format, Output


def move(
    source: Annotated[
        str,
        typer.Option("--from", metavar="PROFILE|URL", help="Source: a profile, or a service URL without credentials."),
    ],
    target: Annotated[
        str,
        typer.Option("--to", metavar="PROFILE|URL", help="Target: a profile, or a service URL without credentials."),
    ],
    source_admin: Annotated[
        str | None, typer.Option("--from-admin", metavar="URL", help="Admin API of a source that is a URL.")
    ] = None,
    target_admin: Annotated[
        str | None, typer.Option("--to-admin", metavar="URL", help="Admin API of a target that is a URL.")
    ] = None,
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", help="tenant/namespace, may be repeated; all without it."),
    ] = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topics", help="Name, or a pattern with * and ?, may be repeated; all without it."),
    ] = None,
    positions: Annotated[
        Path, typer.Option(file_okay=False, help="Directory that keeps the new position of every entry.")
    ] = Path("move-positions"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and change nothing.")] = False,
    output: Output = None,
) -> None:
    """Move tenants, namespaces, topics, messages and subscriptions to another Pulsar, from ours to a cluster or between
    any two. Prints a plan before, and a report after; status 1 if anything differs. Killed, it goes on when it is run
    again with the same --positions. The source is not changed.
    """
    from spark_pulsar.cli.move.places import places_of
    from spark_pulsar.cli.move.plan import plan_of
    from spark_pulsar.cli.move.sides import described, side
    from spark_pulsar.client.rest import RestError
    from spark_pulsar.model.errors import PulsarError

    try:
        with (
            side("source", "--from", source, source_admin) as ours,
            side("target", "--to", target, target_admin) as theirs,
        ):
            plan = plan_of(ours, theirs, places_of(ours, namespaces or [], topics or []))
            _print_plan(plan, output, is_result=dry_run)
            if plan.refusals:
                raise typer.Exit(1)
            if not dry_run:
                _run(ours, theirs, plan, positions, output)
    except RestError as error:
        raise _failed(described(error)) from error
    except (PulsarError, OSError) as error:
        raise _failed(str(error)) from error


def _run(source: Any, target: Any, plan: Any, positions: Path, output: Format | None) -> None:
    from spark_pulsar.cli.move.moving import Move
    from spark_pulsar.cli.output.formats import show
    from spark_pulsar.cli.output.progress import Progress

    with Progress("copying and comparing entries", 2 * plan.entries) as bar:
        report = Move(source, target, plan, positions).run(lambda entries, _: bar.advance(entries))
    rows = report.to_json()
    if output in (Format.JSON, Format.YAML):
        show(rows, output)
    else:
        for kind in ("partitions", "subscriptions", "differences"):
            if rows[kind]:
                show(rows[kind], output)
    if not report.is_equal:
        raise typer.Exit(1)


def _print_plan(plan: Any, output: Format | None, *, is_result: bool) -> None:
    """Prints the plan; on standard error, but for a dry run, what the target cannot hold."""
    from spark_pulsar.cli.output.formats import show

    if is_result:
        rows = plan.rows()
        as_one = {"topics": rows, "refusals": plan.refusals, "notes": plan.notes}
        show(as_one if output in (Format.JSON, Format.YAML) else rows, output)
    for text in plan.refusals:
        typer.echo(f"spark-pulsar: {text}", err=True)
    for text in plan.notes:
        typer.echo(f"spark-pulsar: note: {text}", err=True)
    if not is_result:
        count = len(plan.rows())
        typer.echo(f"spark-pulsar: topics to move: {count}, entries: {plan.entries}", err=True)


def _failed(text: str) -> typer.Exit:
    typer.echo(f"spark-pulsar: {text}", err=True)
    return typer.Exit(1)
