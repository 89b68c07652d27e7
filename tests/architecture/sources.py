"""The project's own files, parsed."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "spark_pulsar"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def tracked_files() -> list[Path]:
    """What git tracks and the work tree still holds."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


@cache
def python_files() -> list[Path]:
    """Python files written by hand."""
    return [path for path in tracked_files() if path.suffix == ".py" and not path.name.endswith("_pb2.py")]


def package_files() -> list[Path]:
    """Those of them that are shipped."""
    return [path for path in python_files() if path.is_relative_to(PACKAGE)]


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(), str(path))


def definitions(
    node: ast.AST, owner: str = "", parent: ast.ClassDef | None = None
) -> Iterator[tuple[str, ast.ClassDef | None, Function | ast.ClassDef]]:
    """(dotted name, class it is in, definition) of every class and function, also of nested ones."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            name = f"{owner}{child.name}"
            yield name, parent, child
            yield from definitions(child, f"{name}.", child if isinstance(child, ast.ClassDef) else None)
        else:
            yield from definitions(child, owner, parent)


def relative(path: Path) -> str:
    """The path as one would name it in the repository."""
    return str(path.relative_to(ROOT))
