"""`spark-pulsar produce`, `consume` and `read`: their options. The work is in modules of their own, loaded by need."""

from pathlib import Path
from typing import Annotated, Final

import typer

from spark_pulsar.cli.access.decorator import with_broker_access
from spark_pulsar.cli.access.options import AccessOptions
from spark_pulsar.cli.access.topics import Topic
from spark_pulsar.cli.messages.forms import MessageFormat, form_of
from spark_pulsar.cli.values import MOST_COUNT, MOST_SECONDS, pairs

Form = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        metavar="FORM",
        help=r"Form of a message: text, json (an object a line), hex, or a template: '%k %v\n' is key and value, "
        "%t topic, %p partition, %o message id, %d publish time, %e event time, %h properties, %x producer.",
    ),
]
ValuesOnly = Annotated[bool, typer.Option("--values-only", help="Print the values and nothing else.")]
_FILE: Final = {"dir_okay": False}


@with_broker_access
def produce(
    topic: Topic,
    message: Annotated[
        list[str] | None, typer.Option("--message", "-m", help="A message; may be given several times.")
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file",
            **_FILE,
            help="A file that is one message, byte by byte; may be given several times, - is standard input.",
        ),
    ] = None,
    lines: Annotated[
        list[Path] | None,
        typer.Option(**_FILE, help="A file whose lines are messages; may be given several times, - is standard input."),
    ] = None,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Lines are objects, as `read --format json` prints them.")
    ] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="TEMPLATE",
            help=r"Form of a line: '%k %v\n' is a key and a value, %e an event time in ms.",
        ),
    ] = None,
    separator: Annotated[str, typer.Option(help=r"What stands between lines; \n \r \t \0 \\ are known.")] = r"\n",
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of every message that names none.")] = None,
    prop: Annotated[
        list[str] | None, typer.Option("--property", "-p", metavar="NAME=VALUE", help="A property of every message.")
    ] = None,
    delay: Annotated[
        str | None, typer.Option(metavar="TIME", help="Deliver after 30s, 5m, 3h …, to Shared subscriptions.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Values are JSON; encode them by the schema of TOPIC, which messages name.")
    ] = False,
    compression: Annotated[str, typer.Option(help="none, lz4, zlib, zstd or snappy.")] = "none",
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=MOST_COUNT, help="Send every message this many times.")
    ] = 1,
    *,
    access: AccessOptions,
) -> None:
    """Send messages to TOPIC: those of --message, --file and --lines, else the lines of standard input. Ends when all
    are on disk."""
    from spark_pulsar.cli.messages import produce as producing
    from spark_pulsar.cli.messages.sources import Sources, delay_ms
    from spark_pulsar.cli.messages.templates import Template

    sources = Sources(
        texts=message or (),
        files=file or (),
        lines=lines or (),
        are_json=json_lines,
        separator=separator,
        template=None if form is None else Template.parse(form),
        key=key,
        properties=pairs(prop, "--property"),
        delay_ms=delay_ms(delay),
        is_encoded=schema,
    )
    producing.produce(access, topic, sources, count=count, compression=compression)


@with_broker_access
def consume(
    topic: Topic,
    subscription: Annotated[str, typer.Option("--subscription", "-s", help="Name of the durable subscription.")],
    count: Annotated[
        int, typer.Option("--count", "-n", min=0, max=MOST_COUNT, help="End after this many messages; 0 = never.")
    ] = 0,
    kind: Annotated[str, typer.Option("--type", "-t", help="Exclusive, Shared, Failover or Key_Shared.")] = "Exclusive",
    initial_position: Annotated[
        str, typer.Option(help="Where a new subscription starts: latest or earliest.")
    ] = "latest",
    timeout: Annotated[
        float,
        typer.Option(
            min=0,
            max=MOST_SECONDS,
            help="End with status 1 when no message comes for this many seconds; 0 = wait for ever.",
        ),
    ] = 0.0,
    form: Form = MessageFormat.TEXT.value,
    values_only: ValuesOnly = False,
    *,
    access: AccessOptions,
) -> None:
    """Print messages of TOPIC and acknowledge them."""
    from spark_pulsar.cli.messages import consume as consuming

    subscribing = consuming.Subscribing(topic, subscription, kind, initial_position)
    consuming.consume(access, subscribing, count=count, timeout_s=timeout, values_only=values_only, form=form_of(form))


@with_broker_access
def read(
    topic: Topic,
    first: Annotated[
        str,
        typer.Option(
            "--from", metavar="WHERE", help="earliest, latest, a message id, a time such as 2026-11-24T08:30, or -2h."
        ),
    ] = "earliest",
    until: Annotated[
        str, typer.Option(metavar="WHERE", help="latest, the id of the last message, or a time, exclusive.")
    ] = "latest",
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with messages that are published from now on.")
    ] = False,
    count: Annotated[
        int, typer.Option("--count", "-n", min=0, max=MOST_COUNT, help="End after this many messages; 0 = all.")
    ] = 0,
    form: Form = MessageFormat.TEXT.value,
    values_only: ValuesOnly = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            dir_okay=False,
            help="Write a table to a file in place of printing: .parquet, .csv, .jsonl, .arrow or .feather.",
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Columns of the table by commas; all without it.")
    ] = None,
    *,
    access: AccessOptions,
) -> None:
    """Print messages of TOPIC, without a subscription: those that are there, or with --follow what comes, too. With
    --output, write those that are there to a file of a table."""
    if output is not None:
        if follow or values_only or form != MessageFormat.TEXT:
            raise typer.BadParameter("a table has no --follow, --format or --values-only", param_hint="--output")
        from spark_pulsar.cli.tables.saving import save

        save(access, topic, output, first=first, until=until, limit=count or None, columns=columns)
        return
    if columns is not None:
        raise typer.BadParameter("only a table has columns: give --output FILE", param_hint="--columns")
    from spark_pulsar.cli.messages import read as reading

    reading.read(
        access, topic, first=first, until=until, follow=follow, count=count, form=form_of(form), values_only=values_only
    )
