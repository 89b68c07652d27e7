"""`spark-pulsar check`."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_pulsar.storage.check import Severity, check

STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}


def print_findings(directory: Path) -> bool:
    """Verify a data directory and print what was found; whether all durable data is in order."""
    console = Console(highlight=False)
    findings = check(directory)
    if findings:
        table = Table("severity", "file", "offset", "finding")
        for finding in findings:
            severity = Text(finding.severity.value, STYLES[finding.severity])
            table.add_row(severity, Text(finding.file), f"{finding.offset:,}", Text(finding.text))
        console.print(table)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    console.print(f"{directory}: {f'errors: {errors}' if errors else 'in order'}", soft_wrap=True)
    return errors == 0
