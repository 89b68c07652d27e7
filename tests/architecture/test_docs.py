"""What must be written down."""

from __future__ import annotations

import ast
import re

from spark_pulsar.connector import tables
from spark_pulsar.connector.option_table import OPTIONS
from spark_pulsar.connector.schema import READ_COLUMNS, WRITE_COLUMNS
from spark_pulsar.server.config.reading import KEYS
from tests.architecture.sources import ROOT, definitions, package_files, parsed, python_files, relative, tracked_files

BROKER = (ROOT / "docs" / "broker.md").read_text()
CONNECTOR = (ROOT / "docs" / "connector.md").read_text()
# Paths of one machine, and of nobody else's.
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|root|home)/\w")
TEXT = {".py", ".md", ".toml", ".conf", ".yml", ".yaml", ".xml", ".properties", ".txt", ".proto", ""}


def test_every_module_says_what_it_is_for() -> None:
    """Tests may leave that to their names."""
    modules = [path for path in python_files() if not path.is_relative_to(ROOT / "tests")]
    assert not [relative(path) for path in modules if not ast.get_docstring(parsed(path))]


def test_everything_public_says_what_it_means() -> None:
    """Methods of a class with bases may leave that to the base."""
    silent = []
    for path in package_files():
        for name, owner, node in definitions(parsed(path)):
            hidden = any(part.startswith("_") for part in name.split(".")) or _is_local(path, name)
            inherits = owner is not None and bool(owner.bases)
            if not hidden and not inherits and not ast.get_docstring(node):
                silent.append(f"{relative(path)}: {name}")
    assert not silent


def _is_local(path: object, name: str) -> bool:
    """Whether a function is defined inside another function."""
    outer = name.rpartition(".")[0]
    return any(outer == other and not isinstance(node, ast.ClassDef) for other, _, node in definitions(parsed(path)))


def test_every_option_and_column_is_written_down() -> None:
    for table in (tables.options_table(), tables.columns_table(READ_COLUMNS), tables.columns_table(WRITE_COLUMNS)):
        for row in table.splitlines():
            assert row in CONNECTOR, (
                f"docs/connector.md: run `python -m spark_pulsar.connector.tables` and paste: {row}"
            )
    assert len({option.name for option in OPTIONS}) == len(OPTIONS)


def test_every_key_of_the_broker_is_written_down() -> None:
    assert not [key for key in KEYS if f"`{key}`" not in BROKER]


def test_no_file_names_a_path_of_one_machine() -> None:
    found = []
    for path in tracked_files():
        if path.suffix in TEXT and not path.name.endswith("_pb2.py"):
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
                if MACHINE_PATHS.search(line):
                    found.append(f"{relative(path)}:{number}: {line.strip()}")
    assert not found


def test_no_test_sleeps_to_let_time_pass() -> None:
    found = []
    for path in python_files():
        if path.is_relative_to(ROOT / "tests"):
            for node in ast.walk(parsed(path)):
                if isinstance(node, ast.Attribute | ast.Name) and _name(node) == "sleep":
                    found.append(f"{relative(path)}:{node.lineno}")
    assert not found


def _name(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id
