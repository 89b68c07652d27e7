"""The command `spark-pulsar support-bundle` and its options."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from spark_pulsar.cli.access.decorator import with_broker_access
from spark_pulsar.cli.access.options import DEFAULT_ADMIN_URL, AccessOptions


@with_broker_access
def support_bundle(
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", dir_okay=False, help="File to write.", show_default="support-DATE.zip"),
    ] = None,
    admin_url: Annotated[
        str | None,
        typer.Option(help="Address of the admin REST API: http:// or https://.", show_default=DEFAULT_ADMIN_URL),
    ] = None,
    data_dir: Annotated[Path, typer.Option(file_okay=False, help="Data directory of a broker here.")] = Path("data"),
    conf: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Configuration file of a broker here.")
    ] = None,
    log: Annotated[
        list[Path] | None,
        typer.Option(exists=True, dir_okay=False, help="A log; several. Otherwise those where logs usually are."),
    ] = None,
    *,
    access: AccessOptions,
) -> None:
    """Write one file for the support: versions, doctor's report, configuration, statistics, logs. Secrets are
    masked; it has at most 64 MiB before compression."""
    from dataclasses import replace

    from spark_pulsar.cli.access.access import Access, admin_access
    from spark_pulsar.cli.access.client_conf import read_client_conf
    from spark_pulsar.cli.doctor.command import findings_of
    from spark_pulsar.cli.support.bundle import logs_near, report, write_bundle

    path = output or Path(f"support-{datetime.now().astimezone():%Y-%m-%d-%H%M%S}.zip")  # noqa: TID251 a file's name
    files = {} if conf is None else {"broker.conf": conf}
    where: Access | str
    try:
        client_conf = read_client_conf(access.client_conf).path
        files |= {} if client_conf is None else {"client.conf": client_conf}
    except typer.BadParameter as error:
        where = error.message
    else:
        where = admin_access(replace(access, url=admin_url))

    def findings() -> list[dict[str, str]]:
        return findings_of(access, admin_url, data_dir)

    try:
        write_bundle(path, where, findings, settings=files, logs=log or logs_near(data_dir))
    except OSError as error:
        typer.echo(f"spark-pulsar: {path} cannot be written: {error.strerror or error}", err=True)
        raise typer.Exit(1) from error
    report(path)
