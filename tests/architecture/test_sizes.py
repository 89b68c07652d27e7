"""Modules and functions that fit a head, and names that say something."""

from __future__ import annotations

import ast

from tests.architecture.sources import definitions, parsed, python_files, relative

MODULE_LINES = 700
FUNCTION_LINES = 70
NO_NAMES = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc"}


def test_modules_are_short() -> None:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in python_files()}
    assert not {name: lines for name, lines in lengths.items() if lines > MODULE_LINES}


def test_functions_are_short() -> None:
    long = []
    for path in python_files():
        for name, _, node in definitions(parsed(path)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if not isinstance(node, ast.ClassDef) and lines > FUNCTION_LINES:
                long.append(f"{relative(path)}: {name} has {lines} lines")
    assert not long


def test_no_module_is_called_after_nothing() -> None:
    assert not [relative(path) for path in python_files() if NO_NAMES & set(path.stem.split("_"))]
