"""The command `spark-pulsar doctor` and its options."""

from pathlib import Path
from typing import Annotated, Final

import typer

from spark_pulsar.cli.access.decorator import with_broker_access
from spark_pulsar.cli.access.options import DEFAULT_ADMIN_URL, AccessOptions
from spark_pulsar.cli.output.formats import Output

_COLUMNS: Final = ("check", "state", "found", "advice")


@with_broker_access
def doctor(
    admin_url: Annotated[
        str | None,
        typer.Option(help="Address of the admin REST API: http:// or https://.", show_default=DEFAULT_ADMIN_URL),
    ] = None,
    data_dir: Annotated[
        Path, typer.Option(file_okay=False, help="Data directory of a broker here; its disk is measured.")
    ] = Path("data"),
    output: Output = None,
    *,
    access: AccessOptions,
) -> None:
    """Check the installation: Python, packages, Spark and its workers, Java, disk, ports, and a broker's address, TLS
    and credentials. Each line says what to do. Status 1 when something fails. Starts no Spark and changes nothing."""
    from spark_pulsar.cli.doctor.findings import State
    from spark_pulsar.cli.output.formats import show

    findings = findings_of(access, admin_url, data_dir)
    show(findings, output, columns=_COLUMNS)
    if any(finding["state"] == State.FAIL for finding in findings):
        raise typer.Exit(1)


def findings_of(access: AccessOptions, admin_url: str | None, data_dir: Path) -> list[dict[str, str]]:
    """Checks everything, and returns the lines of the report."""
    from spark_pulsar.cli.doctor.addresses import check_addresses
    from spark_pulsar.cli.doctor.machine import check_machine
    from spark_pulsar.cli.doctor.pythons import check_pythons
    from spark_pulsar.cli.doctor.spark import check_spark_and_java

    findings = [
        *check_pythons(),
        *check_spark_and_java(),
        *check_machine(data_dir),
        *check_addresses(access, admin_url),
    ]
    return [{name: str(getattr(finding, name)) for name in _COLUMNS} for finding in findings]
