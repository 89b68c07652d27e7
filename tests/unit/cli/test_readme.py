"""Tables of the docs about command line and folders are exact; the other tables are checked elsewhere."""

import re
import subprocess
from itertools import takewhile
from pathlib import Path

from typer.testing import CliRunner

from spark_pulsar.cli.main import app

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"


def rows(page: str, heading: str) -> list[list[str]]:
    """Cells of the first table of a page whose first heading is `heading`."""
    table = (DOCS / page).read_text().partition(f"\n| {heading} |")[2].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in takewhile(is_row, table)]


def is_row(line: str) -> bool:
    """Tells whether a line belongs to a table."""
    return line.startswith("|")


def test_every_command_is_listed() -> None:
    listed = re.findall(r"^\| `spark-pulsar ([\w-]+)", (DOCS / "cli.md").read_text(), re.MULTILINE)
    help_text = CliRunner().invoke(app, ["--help"]).stdout
    commands = help_text.partition("\nCommands:\n")[2].partition("\n\n")[0]
    assert sorted(set(listed)) == sorted(re.findall(r"^  ([\w-]+)(?: |$)", commands, re.MULTILINE))


def test_every_folder_has_its_line() -> None:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    folders = {line.partition("/")[0] + "/" for line in done.stdout.splitlines() if "/" in line}
    assert {cells[0].strip("`") for cells in rows("architecture.md", "Folder")} == folders
