"""The console script `spark-pulsar`."""

import typer

app = typer.Typer(
    name="spark-pulsar",
    help="A lightweight broker for Apache Pulsar's clients, and tools to try it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(installed("spark-pulsar"))


if __name__ == "__main__":
    app()
