"""What the README says about broker, command line and folders is so; the connector's tables are checked elsewhere."""

import re
import subprocess
from pathlib import Path

from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from spark_pulsar.server.config.reading import KEYS, parse_properties

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text()
DEFAULTS = parse_properties((ROOT / "conf" / "broker.conf").read_text())


def rows(heading: str) -> list[list[str]]:
    """Cells of the table whose first heading is `heading`."""
    table = README.partition(f"| {heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def test_the_configuration_table_lists_every_key_with_its_default() -> None:
    assert {key.strip("`"): meaning for key, _, meaning in rows("Key")} == {key: KEYS[key].help for key in KEYS}
    table = {key.strip("`"): default.strip("`").replace(", ", ",") for key, default, _ in rows("Key")}
    assert {key: "" if value == "–" else value for key, value in table.items()} == DEFAULTS


def test_every_command_is_listed() -> None:
    listed = re.findall(r"^\| `spark-pulsar (\w+)", README, re.MULTILINE)
    help_text = CliRunner().invoke(app, ["--help"]).stdout
    assert sorted(listed) == sorted(re.findall(r"^│ (\w+) ", help_text, re.MULTILINE))


def test_every_folder_has_its_line() -> None:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    folders = {line.partition("/")[0] + "/" for line in done.stdout.splitlines() if "/" in line}
    assert {cells[0].strip("`") for cells in rows("Folder")} == folders
