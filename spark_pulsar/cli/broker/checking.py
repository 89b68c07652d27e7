"""`spark-pulsar check`."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_pulsar.cli.output.formats import Format, show
from spark_pulsar.cli.output.progress import Progress
from spark_pulsar.ledger.storage import StorageError
from spark_pulsar.storage.checkpoint.read_only import CannotRead
from spark_pulsar.storage.offline.check import Finding, Severity, check

_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}


@dataclass(slots=True)
class _Report:
    """Findings of one directory: in words as it comes, or as one value in the end."""

    directory: Path
    output: Format | None
    value: dict[str, Any] = field(default_factory=dict)

    @property
    def is_value(self) -> bool:
        """Returns whether the report is one value."""
        return self.output in (Format.JSON, Format.YAML)

    def say(self, text: str) -> None:
        """Prints a line."""
        if not self.is_value:
            sys.stdout.write(f"{text}\n")

    def refuse(self, text: str) -> bool:
        """Prints why there is no report; returns False."""
        (sys.stderr if self.is_value else sys.stdout).write(f"{text}\n")
        return False

    def findings(self, findings: list[Finding], when: str = "") -> bool:
        """Prints findings and the verdict; returns whether all is in order."""
        rows = [
            {"severity": str(finding.severity), "file": finding.file, "offset": finding.offset, "finding": finding.text}
            for finding in findings
        ]
        errors = sum(finding.severity is Severity.ERROR for finding in findings)
        self.value |= {"directory": str(self.directory), "in_order": not errors}
        self.value[f"findings_{when}" if when else "findings"] = rows
        if rows and not self.is_value:
            show(rows, self.output, styles=_STYLES)
        verdict = f"errors: {errors}" if errors else "in order"
        self.say(f"{self.directory}: {f'{when}: ' if when else ''}{verdict}")
        return not errors

    def end(self) -> None:
        """Prints the value."""
        if self.is_value and self.value:
            show(self.value, self.output)


def print_findings(directory: Path, output: Format | None) -> bool:
    """Verifies a data directory and prints the findings; returns whether all durable data is in order."""
    report = _Report(directory, output)
    is_in_order = _verify(report)
    report.end()
    return is_in_order


def repair_and_print(directory: Path, output: Format | None) -> bool:
    """Repairs a data directory, and prints findings and repairs; returns whether all is in order now."""
    from spark_pulsar.storage.offline.repair import repair

    os.umask(0o077)  # its files are for the owner alone, as all that a broker makes
    report = _Report(directory, output)
    try:
        with Progress(f"Repairing {directory}") as bar:
            findings, done = repair(directory, progress=lambda done, total: bar.update(done=done, total=total))
    except StorageError as error:
        return report.refuse(str(error))
    report.findings(findings, "before")
    report.value["repaired"] = done
    for line in done:
        report.say(f"repaired: {line}")
    is_in_order = _verify(report, "now")
    report.end()
    return is_in_order


def _verify(report: _Report, when: str = "") -> bool:
    try:
        with Progress(f"Verifying {report.directory}") as bar:
            findings = check(report.directory, lambda done, total: bar.update(done=done, total=total))
    except CannotRead as error:
        return report.refuse(str(error))
    return report.findings(findings, when)
