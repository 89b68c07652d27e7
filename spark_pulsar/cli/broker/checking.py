"""`spark-pulsar check`."""

import os
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from spark_pulsar.storage.checkpoint.read_only import CannotLook
from spark_pulsar.storage.offline.check import Finding, Severity, check

STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}


def print_findings(directory: Path) -> bool:
    """Verifies a data directory and prints the findings; tells whether all durable data is in order."""
    return _look_and_print(Console(highlight=False), directory)


def repair_and_print(directory: Path) -> bool:
    """Repairs a data directory, and prints findings and repairs; tells whether all is in order now."""
    from spark_pulsar.ledger.storage import StorageError
    from spark_pulsar.storage.offline.repair import repair

    os.umask(0o077)  # what it makes is for the owner alone, as all that a broker makes
    console = Console(highlight=False)
    try:
        findings, done = repair(directory)
    except StorageError as error:
        console.print(str(error), soft_wrap=True, markup=False)
        return False
    _print(console, directory, findings, "before")
    for line in done:
        console.print(f"repaired: {line}", soft_wrap=True, markup=False)
    return _look_and_print(console, directory, "now")


def _look_and_print(console: Console, directory: Path, when: str = "") -> bool:
    try:
        findings = check(directory)
    except CannotLook as error:
        console.print(str(error), soft_wrap=True, markup=False)
        return False
    return _print(console, directory, findings, when)


def _print(console: Console, directory: Path, findings: list[Finding], when: str = "") -> bool:
    if findings:
        table = Table("severity", Column("file", overflow="fold"), Column("offset", no_wrap=True), "finding")
        for finding in findings:
            severity = Text(finding.severity.value, STYLES[finding.severity])
            table.add_row(severity, Text(finding.file), str(finding.offset), Text(finding.text))
        console.print(table)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    verdict = f"errors: {errors}" if errors else "in order"
    console.print(f"{directory}: {f'{when}: ' if when else ''}{verdict}", soft_wrap=True)
    return errors == 0
