"""`spark-pulsar page`: its options."""

from __future__ import annotations

import contextlib
import signal
import threading
import webbrowser
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import typer

from spark_pulsar.cli.access.decorator import with_admin_access
from spark_pulsar.cli.access.options import AccessOptions

PORT = 8090


@with_admin_access
def page(
    service_url: Annotated[
        str | None, typer.Option("--service-url", "-u", help="Broker to produce to; $PULSAR_SERVICE_URL.")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port at 127.0.0.1; 0 is any.")] = PORT,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    *,
    access: AccessOptions,
) -> None:
    """Serve the page for any Apache Pulsar, at this machine alone, with the credentials given here."""
    from spark_pulsar.cli.access.access import admin_access, broker_access
    from spark_pulsar.model.extras import require

    require("the page", "starlette")
    from spark_pulsar.cli.page.serving import PageServer, Pulsar

    of_broker = replace(access, url=service_url)
    pulsar = Pulsar(admin_access(access), broker_access(of_broker).url, lambda record: _produce(of_broker, record))
    try:
        server = PageServer(port, pulsar)
    except OSError as error:
        typer.echo(f"spark-pulsar page: cannot start at port {port}: {error}; --port gives another", err=True)
        raise typer.Exit(1) from error
    with server:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
        typer.echo(f"page of {pulsar.access.url}: {server.url}")
        if open_browser:
            webbrowser.open(server.url)
        server.serve_forever()


def _produce(options: AccessOptions, record: Mapping[str, Any]) -> str:
    """Sends a message by the official client and returns its id."""
    from spark_pulsar.cli.access.access import broker_access
    from spark_pulsar.cli.page.serving import NotProduced, message_of
    from spark_pulsar.model.errors import PulsarError
    from spark_pulsar.model.positions.ids import MessageId

    try:
        import pulsar
    except ImportError as error:
        raise NotProduced("it needs the official client: pip install 'spark-pulsar[cli]'") from error
    message = message_of(record)
    access = broker_access(options)
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    try:
        settings = access.client_settings()
        client = pulsar.Client(access.url, operation_timeout_seconds=15, logger=logger, **settings)
        with contextlib.closing(client):
            producer = client.create_producer(record["topic"], batching_enabled=False, send_timeout_millis=15_000)
            return str(MessageId.of_client(producer.send(**message)))
    except (pulsar.PulsarException, PulsarError) as error:
        raise NotProduced(str(error)) from error
