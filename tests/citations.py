"""Citations of rules: what looks like the id of a rule, and which tests name one after `# covers`.

An id is its family and a number: `KS-10` is of the family `KS`, `CMP-C1` of `CMP-C`. The few without a hyphen (`A5`)
look like names of anything, so they count only where nothing but rules is named: after `# covers`, and in `ours_only`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

RULES = Path(__file__).resolve().parents[1] / "docs" / "rules.md"

ID = re.compile(r"\b([A-Z]{1,6}-[A-Z]?|[A-Z])(\d+)([a-z]?)\b")
"""Head, number, letter. With a hyphen: anywhere."""
HYPHENATED = re.compile(r"\b([A-Z]{1,6}-[A-Z]?)(\d+)([a-z]?)\b")
BARE = re.compile(r"(?<![\w-])([A-Z])(\d{1,2})(?!\w)")
STRETCH = re.compile(rf"{HYPHENATED.pattern}\s*(?:\.\.\.|…)[\s#]*{HYPHENATED.pattern}")
COVERS = re.compile(r"# covers (.*(?:\n[ \t]*#.*)*)")


def existing(rule: str) -> None:
    """Raises pytest.UsageError for a rule that has no row."""
    if f"\n| {rule} | " not in RULES.read_text():
        raise pytest.UsageError(f"--rule={rule}: no such row in docs/rules.md")


def named_in(text: str) -> Iterator[str]:
    """Ids with a hyphen that a text names, those between the ends of `KS-1 ... KS-4` too."""
    for found in HYPHENATED.finditer(text):
        yield found[0]
    for head, first, _, other_head, last, _ in STRETCH.findall(text):
        if head == other_head:
            yield from (f"{head}{number}" for number in range(int(first), int(last)))


def named_where_rules_are(text: str) -> set[str]:
    """Ids that a text names which holds nothing but rules: those without a hyphen too."""
    return {*named_in(text), *(found[0] for found in BARE.finditer(text))}


def covered_in(text: str) -> set[str]:
    """Ids that a text of Python names after `# covers`."""
    return {rule for cited in COVERS.findall(text) for rule in named_where_rules_are(cited)}


@cache
def covered_by_test(path: Path) -> dict[str, set[str]]:
    """Ids by function of a file, as `name` or `Class.name`, decorators included."""
    source = path.read_text()
    lines = source.splitlines()
    covered: dict[str, set[str]] = {}
    module = ast.parse(source)
    classes = [("", module), *((f"{node.name}.", node) for node in module.body if isinstance(node, ast.ClassDef))]
    for owner, scope in classes:
        for node in scope.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                covered[f"{owner}{node.name}"] = covered_in("\n".join(lines[first - 1 : node.end_lineno]))
    return covered


def chosen(item: pytest.Item, rule: str) -> bool:
    """True for a test that covers a rule or is marked `ours_only` for it; for one that is no function of its file (a
    state machine) when the file names the rule."""
    if any(rule in named_where_rules_are(str(marker.args[0])) for marker in item.iter_markers("ours_only")):
        return True
    if not isinstance(item, pytest.Function):
        return False
    owner = f"{item.cls.__name__}." if item.cls else ""
    covered = covered_by_test(item.path).get(f"{owner}{item.originalname}")
    return rule in (covered if covered is not None else covered_in(item.path.read_text()))


def may_name(path: Path, rule: str) -> bool:
    """True for a file whose tests are worth collecting for a rule."""
    text = path.read_text()
    return rule in covered_in(text) or ("ours_only" in text and rule in named_where_rules_are(text))
