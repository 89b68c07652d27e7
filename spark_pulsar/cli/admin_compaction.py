"""`spark-pulsar admin topics compact` and `compaction-status`."""

import time
from typing import Annotated

import typer

from spark_pulsar.cli.admin_values import topic_name, topic_path

_PAUSE_S = 0.2
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Short (public/default) or full name.")]


def add_compaction_commands(app: typer.Typer) -> None:
    """Add them to the commands of topics."""

    @app.command("compact")
    def compact(ctx: typer.Context, topic: Topic) -> None:
        """Keep only the last message of each key for readers of the compacted view."""
        ctx.obj.put(f"{topic_path(topic)}/compaction")
        typer.echo(f"Topic compaction requested for {topic_name(topic)}.")

    @app.command("compaction-status")
    def compaction_status(
        ctx: typer.Context,
        topic: Topic,
        wait: Annotated[bool, typer.Option("--wait-complete", "-w", help="Wait until it is done.")] = False,
    ) -> None:
        """Say how the last compaction since the start of the broker went; 1 when it failed."""
        path = f"{topic_path(topic)}/compaction"
        answer = ctx.obj.get(path)
        while wait and answer["status"] == "RUNNING":
            time.sleep(_PAUSE_S)
            answer = ctx.obj.get(path)
        texts = {
            "NOT_RUN": f"Compaction has not been run for {topic_name(topic)} since broker startup",
            "RUNNING": "Compaction is currently running",
            "SUCCESS": "Compaction was a success",
        }
        if answer["status"] in texts:
            typer.echo(texts[answer["status"]])
        else:
            typer.echo(f"Error in compaction\n{answer['lastError']}", err=True)
            raise typer.Exit(1)
