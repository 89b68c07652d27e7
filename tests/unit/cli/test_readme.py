"""Tables of the docs about broker, command line and folders are exact; the connector's tables are checked elsewhere."""

import re
import subprocess
from itertools import takewhile
from pathlib import Path

from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from spark_pulsar.server.config.reading import KEYS, parse_properties

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
DEFAULTS = parse_properties((ROOT / "conf" / "broker.conf").read_text())


def rows(page: str, heading: str) -> list[list[str]]:
    """Cells of the first table of a page whose first heading is `heading`."""
    table = (DOCS / page).read_text().partition(f"\n| {heading} |")[2].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in takewhile(is_row, table)]


def is_row(line: str) -> bool:
    """Tells whether a line belongs to a table."""
    return line.startswith("|")


def test_the_configuration_table_lists_every_key_with_its_default() -> None:
    assert {key.strip("`"): meaning for key, _, meaning in rows("broker.md", "Key")} == {
        key: KEYS[key].help for key in KEYS
    }
    table = {key.strip("`"): default.strip("`").replace(", ", ",") for key, default, _ in rows("broker.md", "Key")}
    assert {key: "" if value == "–" else value for key, value in table.items()} == DEFAULTS


def test_every_command_is_listed() -> None:
    listed = re.findall(r"^\| `spark-pulsar (\w+)", (DOCS / "admin.md").read_text(), re.MULTILINE)
    help_text = CliRunner().invoke(app, ["--help"]).stdout
    assert sorted(listed) == sorted(re.findall(r"^│ (\w+) ", help_text, re.MULTILINE))


def test_every_folder_has_its_line() -> None:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    folders = {line.partition("/")[0] + "/" for line in done.stdout.splitlines() if "/" in line}
    assert {cells[0].strip("`") for cells in rows("architecture.md", "Folder")} == folders
