"""Every rule that is cited is a row of docs/rules.md, once and in its place.

Families are those of the headings in docs/rules.md. What an id looks like says `tests/citations.py`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import changes
from tests.architecture.sources import PACKAGE, ROOT, parsed, relative, tracked_files
from tests.citations import COVERS, ID, covered_by_test, existing, may_name, named_in, named_where_rules_are

RULES = (ROOT / "docs" / "rules.md").read_text()
BESIDE = (ROOT / "tests" / "spark" / "README.md").read_text()
FOLDERS = {"spark_pulsar", "tests", "benchmarks", "jobs"}
SUFFIXES = {".py", ".md", ".conf", ".go", ".xml", ".json"}

HEADING = re.compile(r"## .+ \(([A-Z]{1,6}(?:-[A-Z])?)\)")
ROW = re.compile(r"\| ([^ |]+) \| (\S.*\S) \|")
HEADS = {"| Id | Rule |", "| --- | --- |"}
OF_THE_CONNECTOR = {"READ", "OFFSET", "SINK", "ONCE", "TXN", "SCHEMA", "LETTER"}
ELSEWHERE = re.compile(
    r"\b(?:admin[-]rest|wire[-]protocol|broker[-]semantics|spark[-]connectors)\b|\bsections? \d|\brow \d+ of section"
    r"|\brows? \d+\)|\brules? \d+\.\d|\bwire [\dA-Z]\d*\b"
)
"""Citations of documents that a reader of the repository does not have: numbered sections and rows."""
NO_FAMILIES = {"UTF", "SHA", "RFC", "ISO", "CRC", "HTTP"}
"""What looks like an id and is none, wherever it stands."""


class Rule(NamedTuple):
    """One row."""

    family: str
    number: int
    letter: str
    heading: str
    text: str


CHANGES = {name: change for name, change in vars(changes).items() if isinstance(change, changes.Change)}


@pytest.mark.parametrize("name", CHANGES)
def test_the_row_of_a_rule_names_the_version_that_changed_it(name: str) -> None:
    change = CHANGES[name]
    (row,) = re.findall(rf"^\| {change.rule} \| (.*) \|$", RULES, re.MULTILINE)
    assert change.since in row
    assert ("mended" in row) == change.ours


def family_of(head: str) -> str:
    """The family that the part of an id before its number says."""
    return head.removesuffix("-")


def rows_of(document: str) -> dict[str, list[Rule]]:
    """The rows of a document, by id: more than one where an id is defined twice."""
    rules: dict[str, list[Rule]] = {}
    heading = ""
    for line in document.splitlines():
        if line.startswith("#"):
            found = HEADING.fullmatch(line)
            heading = found[1] if found else ""
        elif line.startswith("|") and line not in HEADS:
            row = ROW.fullmatch(line)
            assert row, f"no row of a rule: {line}"
            named = ID.fullmatch(row[1])
            assert named, f"no id: {line}"
            rule = Rule(family_of(named[1]), int(named[2]), named[3], heading, row[2])
            rules.setdefault(row[1], []).append(rule)
    return rules


def named_at_all(text: str) -> Iterator[str]:
    """Ids that a text names by themselves: `KS-1 ... KS-4` are two, so that each rule is found by its id."""
    yield from (found[0] for found in ID.finditer(text))


def wrong_anywhere(text: str, rules: dict[str, list[Rule]]) -> set[str]:
    """Ids of families that there are which are not defined."""
    families = {rule.family for each in rules.values() for rule in each}
    return {each for each in named_in(text) if each not in rules and family_of(each.rstrip("0123456789")) in families}


def wrong_where_rules_are_named(text: str, rules: dict[str, list[Rule]]) -> set[str]:
    """What looks like an id and is not defined, whatever its family."""
    return {
        each for each in named_where_rules_are(text) if each not in rules and each.partition("-")[0] not in NO_FAMILIES
    }


def citations_of(path: Path, text: str) -> Iterator[str]:
    """The texts of a file that name rules and nothing else."""
    yield from COVERS.findall(text)
    if path.suffix == ".py" and "ours_only" in text:
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "ours_only":
                yield from (str(given.value) for given in node.args if isinstance(given, ast.Constant))


@cache
def files() -> list[tuple[Path, str]]:
    """Files that may cite rules, with their texts."""
    chosen = [path for path in tracked_files() if path.relative_to(ROOT).parts[0] in FOLDERS]
    return [(path, path.read_text()) for path in chosen if path.suffix in SUFFIXES and "_pb2." not in path.name]


def test_every_rule_that_is_cited_is_defined() -> None:
    rules = rows_of(RULES)
    dangling = []
    for path, text in files():
        wrong = wrong_anywhere(text, rules)
        for citation in citations_of(path, text):
            wrong |= wrong_where_rules_are_named(citation, rules)
        dangling += [f"{relative(path)}: {each}" for each in sorted(wrong)]
    assert not dangling, "docs/rules.md has no such row"


def test_nothing_is_cited_that_is_not_in_the_repository() -> None:
    """Comments and docstrings name a rule of docs/rules.md, or nothing."""
    dead = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path, text in files()
        if path.suffix == ".py" and path != Path(__file__)
        for number, line in enumerate(text.splitlines(), 1)
        if ELSEWHERE.search(line)
    ]
    assert not dead, "cite a rule of docs/rules.md"


def test_every_rule_of_the_connector_has_a_test_and_a_reason() -> None:
    rules = {name for name, (rule, *_) in rows_of(RULES).items() if rule.family in OF_THE_CONNECTOR}
    covered = {name for path, text in files() for cited in COVERS.findall(text) for name in named_in(cited)}
    assert not sorted(rules - covered), "no test says `# covers`"
    assert not sorted(rules - set(named_in(BESIDE))), "tests/spark/README.md does not say beside what"


def test_every_rule_is_cited_where_the_package_keeps_it() -> None:
    """But for rules of the official clients ("Client: …") and those about descriptions of Apache Pulsar (X)."""
    texts = [text for path, text in files() if path.is_relative_to(PACKAGE) and path.suffix == ".py"]
    cited = {name for text in texts for name in named_at_all(text)}
    due = {
        name for name, (rule, *_) in rows_of(RULES).items() if rule.family != "X" and not rule.text.startswith("Client")
    }
    assert not sorted(due - cited), "name the rule in the docstring of what keeps it"


def test_rules_refer_to_rules() -> None:
    assert not wrong_anywhere(RULES, rows_of(RULES))


def test_no_rule_is_defined_twice() -> None:
    assert not [name for name, rules in rows_of(RULES).items() if len(rules) > 1]
    headings = Counter(HEADING.findall(RULES))
    assert not [family for family, count in headings.items() if count > 1]


def test_rules_stand_under_their_family_in_order() -> None:
    last: dict[str, tuple[int, str]] = {}
    for name, (rule, *_) in rows_of(RULES).items():
        assert rule.heading == rule.family, f"{name} stands under ({rule.heading})"
        assert last.get(rule.family, (-1, "")) < (rule.number, rule.letter), f"{name} stands too late"
        last[rule.family] = (rule.number, rule.letter)
    assert set(last) == set(HEADING.findall(RULES)), "a heading without rules"


# ---- the proof itself -----------------------------------------------------------------------------------------------

SMALL = rows_of(
    "## Keys (KS)\n| KS-1 | one |\n| KS-2 | two |\n## Compaction (CMP-C)\n| CMP-C1 | three |\n## All (A)\n| A5 | four |"
)
# What it lacks. All but the strange one are real, since this file is read like any other.
KEY_3, KEY_4, COMPACTION_2, STRANGE_1, ANY_6 = "KS-3", "KS-4", "CMP-C2", "QQ-1", "A6"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("as KS-1 and CMP-C1 say", set()),
        (f"as {KEY_3} says", {KEY_3}),
        (f"as KS-1, {COMPACTION_2} say", {COMPACTION_2}),
        (f"KS-1 ...\n    # {KEY_4}", {KEY_3, KEY_4}),
        (f"in UTF-8, on {STRANGE_1} and {ANY_6}", set()),
    ],
)
def test_what_is_wrong_anywhere(text: str, wrong: set[str]) -> None:
    assert wrong_anywhere(text, SMALL) == wrong


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("KS-2, A5: text in UTF-8", set()),
        (f"KS-2, {STRANGE_1}", {STRANGE_1}),
        (f"{ANY_6} (of a batch)", {ANY_6}),
    ],
)
def test_what_is_wrong_where_rules_are_named(text: str, wrong: set[str]) -> None:
    assert wrong_where_rules_are_named(text, SMALL) == wrong


@pytest.mark.parametrize(
    ("text", "is_dead"),
    [
        (f"(section {12})", True),
        (f"never early (row {7})", True),
        (f"# covers KS-10, wire {5.7}", True),
        (f"wire{'-'}protocol", True),
        (f"kept for long (rules {5.2})", True),
        ("in row 12 of the task", False),
        ("the wire format of KS-10", False),
    ],
)
def test_what_is_cited_elsewhere(text: str, is_dead: bool) -> None:
    assert bool(ELSEWHERE.search(text)) == is_dead


def test_what_a_file_cites() -> None:
    text = f"def test() -> None:\n    {'#'} covers KS-1,\n    # KS-2: why\n    pass\n"
    assert list(citations_of(Path("test.txt"), text)) == ["KS-1,\n    # KS-2: why"]


# ---- the tests of one rule ------------------------------------------------------------------------------------------


def test_tests_of_a_rule(tmp_path: Path) -> None:
    file = tmp_path / "test_keys.py"
    covers = "# " + "covers"
    file.write_text(
        f"def test_one() -> None:\n    {covers} KS-1 ...\n    # KS-3, A5\n    pass\n\n"
        f"@decorated(\n    1,  {covers} KS-4\n)\ndef test_two() -> None:\n    pass\n\n"
        f"class TestKeys:\n    def test_three(self) -> None:\n        {covers} KS-1\n        pass\n"
    )
    assert covered_by_test(file) == {
        "test_one": {"KS-1", "KS-2", KEY_3, "A5"},
        "test_two": {KEY_4},
        "TestKeys.test_three": {"KS-1"},
    }
    assert may_name(file, "KS-2")
    assert not may_name(file, "KS-12")


def test_a_rule_runs_its_tests_alone() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--co", "-p", "no:cacheprovider", "--rule=NACK-5", "tests"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tests = {line.partition("[")[0] for line in listed.splitlines() if "::" in line}
    assert tests
    for test in tests:
        name, _, function = test.partition("::")
        assert "NACK-5" in covered_by_test(ROOT / name)[function.replace("::", ".")]


def test_a_rule_that_does_not_exist_is_an_error() -> None:
    existing("NACK-5")
    with pytest.raises(pytest.UsageError, match="no such row"):
        existing("TMO-" + "99")


def test_make_runs_a_rule_without_checks_and_set_up() -> None:
    command = ["make", "-n", "test", "RULE=TN-1"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "--rule=TN-1" in printed
    for other in ("ruff", "mypy", "browser", "java"):
        assert other not in printed
