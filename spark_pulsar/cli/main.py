"""The console script `spark-pulsar`: commands and their options. Each command's work is in a module of its own."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from spark_pulsar import __version__
from spark_pulsar.broker.configuration.keys import keys_of
from spark_pulsar.cli.doctor.command import doctor
from spark_pulsar.cli.frame.groups import HELP_NAMES, OneLineErrors, loaded_from
from spark_pulsar.cli.frame.help import Commands, examples
from spark_pulsar.cli.messages import commands as messages
from spark_pulsar.cli.move.command import move
from spark_pulsar.cli.output.formats import Output, show
from spark_pulsar.cli.page.command import page
from spark_pulsar.cli.support.command import support_bundle
from spark_pulsar.cli.tables import commands as tables
from spark_pulsar.cli.topics import commands as topics
from spark_pulsar.cli.values import LogLevel
from spark_pulsar.cli.why.command import why
from spark_pulsar.server.configuration.server_config import ServerConfig

_KEYS = {name: key for name, (_, key) in keys_of(ServerConfig).items()}


def _instead_of(name: str, **kind: Any) -> Any:
    """Makes an option of `broker` that wins over this key of its configuration file."""
    return typer.Option(help=_KEYS[name].meaning, show_default=_KEYS[name].default, **kind)


def _directory(text: str) -> Path:
    """Reads the name of a directory; an empty one would be the working directory's."""
    if not text.strip():
        raise typer.BadParameter("it is empty: name a directory")
    if Path(text).is_file():
        raise typer.BadParameter(f"{text} is a file: name a directory")
    return Path(text)


app = Commands(
    name="spark-pulsar",
    epilog=examples("produce orders -m hello -k customer-7", "read orders --from -2h --follow"),
    pretty_exceptions_enable=False,
    cls=OneLineErrors,
    context_settings={"help_option_names": HELP_NAMES},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spark-pulsar {__version__}")
        raise typer.Exit


@app.callback()
def _everything(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """A lightweight broker for Apache Pulsar's clients, and tools to try it."""


@app.command(epilog=examples("broker --data-dir ~/pulsar", "broker --conf broker.conf --port 6650 --http-port 8080"))
def broker(
    conf: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Configuration file with Pulsar's key names.")
    ] = None,
    data_dir: Annotated[Path | None, _instead_of("dataDirectory", parser=_directory, metavar="<dir>")] = None,
    port: Annotated[int | None, _instead_of("brokerServicePort", min=0, max=65535)] = None,
    http_port: Annotated[int | None, _instead_of("webServicePort", min=0, max=65535)] = None,
    tls_port: Annotated[int | None, _instead_of("brokerServicePortTls", min=0, max=65535)] = None,
    tls_http_port: Annotated[int | None, _instead_of("webServicePortTls", min=0, max=65535)] = None,
    host: Annotated[str | None, _instead_of("bindAddress")] = None,
    log_level: Annotated[
        LogLevel, typer.Option(help="Least severity of the lines of the log.", case_sensitive=False)
    ] = LogLevel.INFO,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C. Options win over the configuration file."""
    from spark_pulsar.cli.broker.serving import run_broker

    options = {"dataDirectory": data_dir, "brokerServicePort": port, "webServicePort": http_port, "bindAddress": host}
    options |= {"brokerServicePortTls": tls_port, "webServicePortTls": tls_http_port}
    given = {key: value for key, value in options.items() if value is not None}
    sys.exit(run_broker(conf, given, with_parent, log_level))


@app.command("config", cls=loaded_from("spark_pulsar.cli.configuration.app"))
def config() -> None:
    """The configuration of a broker: of its file, and while it runs."""


app.command(
    epilog=examples(
        "produce orders -m hello -k customer-7 -p source=shell",
        "read orders --format json | spark-pulsar produce copy --json-lines",
    )
)(messages.produce)
app.command(
    epilog=examples(
        "consume orders -s billing", "consume orders -s billing -n 10 --initial-position earliest --timeout 30"
    )
)(messages.consume)
app.command(epilog=examples("read orders --from -2h --follow", "read orders --output orders.parquet"))(messages.read)
app.command(
    epilog=examples(
        'sql "select __key, count(*) from orders group by all"',
        "sql 'from \"acme/shop/orders\"' -o orders.parquet",
    )
)(tables.sql)
app.command(epilog=examples("top", "top public/default --sort backlog --interval 5"))(topics.top)
app.command(
    epilog=examples(
        "page --open",
        "page --service-url pulsar+ssl://pulsar.example.com:6651 --admin-url https://pulsar.example.com:8443",
    )
)(page)
app.command(epilog=examples("doctor", "doctor --service-url pulsar+ssl://pulsar.example.com:6651 -o json"))(doctor)
app.command("support-bundle", epilog=examples("support-bundle", "support-bundle -o case-7.zip --profile prod"))(
    support_bundle
)
app.command(
    epilog=examples(
        "move --from local --to production --dry-run",
        "move --from pulsar://edge:6650 --from-admin http://edge:8080 --to production --namespace acme/shop",
    )
)(move)
app.command(epilog=examples("why orders", "why orders billing --profile production -o json"))(why)


@app.command(epilog=examples("offsets /data/checkpoints/orders", "offsets s3://bucket/checkpoints/orders"))
def offsets(
    checkpoint: Annotated[str, typer.Argument(help="Directory of a stopped query, or an fsspec address.")],
) -> None:
    """Print where a streaming query stands, as the option startingOffsets of a new one."""
    from spark_pulsar.connector.offsets.starting_offsets import starting_offsets

    try:
        typer.echo(starting_offsets(checkpoint=checkpoint))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@app.command(epilog=examples("check ~/pulsar", "check ~/pulsar --repair"))
def check(
    directory: Annotated[Path, typer.Argument(exists=True, file_okay=False)],
    repair: Annotated[
        bool, typer.Option("--repair", help="Accept the losses: damaged topics are read-only until then.")
    ] = False,
    output: Output = None,
) -> None:
    """Verify the data directory of a stopped broker: journal, ledger files, checkpoint. Status 1 when it is damaged.
    Changes nothing without --repair: a read-only copy will do.

    --repair lists the losses exactly, keeps damaged files in DIR/damaged, and changes no intact file.
    """
    from spark_pulsar.cli.broker.checking import print_findings, repair_and_print

    sys.exit(0 if (repair_and_print if repair else print_findings)(directory, output) else 1)


@app.command("admin", cls=loaded_from("spark_pulsar.cli.admin.app"))
def admin() -> None:
    """Clusters, tenants, namespaces, topics and their policies, as pulsar-admin has them."""


@app.command("bench", cls=loaded_from("spark_pulsar.cli.bench.app"))
def bench() -> None:
    """Measure rates and latencies by the official client, as pulsar-perf does."""


@app.command("profile", cls=loaded_from("spark_pulsar.cli.profiles.app"))
def profile() -> None:
    """Addresses and credentials of a Pulsar under a name, for --profile NAME."""


@app.command("topics", cls=loaded_from("spark_pulsar.cli.topics.app"))
def _topics() -> None:
    """Tenants, namespaces, topics and subscriptions as a tree."""


@app.command("tokens", cls=loaded_from("spark_pulsar.cli.tokens.app"))
def tokens() -> None:
    """Keys and tokens, as `pulsar tokens` makes them."""


@app.command(epilog=examples("version", "version -o json"))
def version(output: Output = None) -> None:
    """Print the version."""
    show(__version__, output)


if __name__ == "__main__":
    app()
