"""`spark-pulsar sql`: its options."""

from typing import Annotated

import typer

from spark_pulsar.cli.access.decorator import with_broker_access
from spark_pulsar.cli.access.options import AccessOptions


@with_broker_access
def sql(
    query: Annotated[
        str,
        typer.Argument(metavar="QUERY", help='SELECT … FROM orders; other namespaces are quoted: "acme/shop/orders".'),
    ],
    first: Annotated[
        str, typer.Option("--from", metavar="WHERE", help="earliest, a time such as 2026-11-24T08:30, or -2h.")
    ] = "earliest",
    until: Annotated[str, typer.Option(metavar="WHERE", help="latest, or a time, exclusive.")] = "latest",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FORM", help="table, json (an object a line), csv, or a FILE.parquet."),
    ] = None,
    *,
    access: AccessOptions,
) -> None:
    """Query topics as tables, by DuckDB. Topics are read as they are when the query begins, and only the columns that
    it uses; no subscription is left behind."""
    from spark_pulsar.cli.tables.printing import form_of, print_result
    from spark_pulsar.cli.tables.sql import BadQuery, Query
    from spark_pulsar.cli.tables.topic_reading import TopicReading, failed
    from spark_pulsar.model.extras import require

    form = form_of(output)
    require("sql", "duckdb")
    reading = TopicReading.of(access, "sql").between(None, first, until)
    try:
        with reading.errors():
            result = Query.of(query).run(reading)
            print_result(next(result), result, form)
    except BadQuery as error:
        raise failed(" ".join(str(error).split())) from error
