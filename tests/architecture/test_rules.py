"""Every rule that is cited is a row of docs/rules.md, once and in its place.

An id is its family and a number: `KS-10` is of the family `KS`, `CMP-C1` of `CMP-C`. Families are those of the headings
in docs/rules.md. The few without a hyphen (`A5`) look like names of anything, so they are looked for only where nothing
but rules is named: after `# covers`, and in `ours_only`.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.sources import ROOT, parsed, relative, tracked_files

RULES = (ROOT / "docs" / "rules.md").read_text()
BESIDE = (ROOT / "tests" / "spark" / "README.md").read_text()
FOLDERS = {"spark_pulsar", "tests", "benchmarks", "jobs"}
SUFFIXES = {".py", ".md", ".conf", ".go", ".xml", ".json"}

HEADING = re.compile(r"## .+ \(([A-Z]{1,4}(?:-[A-Z])?)\)")
ROW = re.compile(r"\| ([^ |]+) \| (\S.*\S) \|")
HEADS = {"| Id | Rule |", "| --- | --- |"}
ID = re.compile(r"\b([A-Z]{1,4}-[A-Z]?|[A-Z])(\d+)([a-z]?)\b")
"""Head, number, letter. With a hyphen: anywhere."""
HYPHENATED = re.compile(r"\b([A-Z]{1,4}-[A-Z]?)(\d+)([a-z]?)\b")
BARE = re.compile(r"(?<![\w-])([A-Z])(\d{1,2})(?!\w)")
STRETCH = re.compile(rf"{HYPHENATED.pattern}\s*(?:\.\.\.|…)[\s#]*{HYPHENATED.pattern}")
COVERS = re.compile(r"# covers (.*(?:\n[ \t]*#.*)*)")
NO_FAMILIES = {"UTF", "SHA", "RFC", "ISO", "CRC", "HTTP"}
"""What looks like an id and is none, wherever it stands."""


class Rule(NamedTuple):
    """One row."""

    family: str
    number: int
    letter: str
    heading: str
    text: str


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


def named_in(text: str) -> Iterator[str]:
    """Ids with a hyphen that a text names, those between the ends of `KS-1 ... KS-4` too."""
    for found in HYPHENATED.finditer(text):
        yield found[0]
    for head, first, _, other_head, last, _ in STRETCH.findall(text):
        if head == other_head:
            yield from (f"{head}{number}" for number in range(int(first), int(last)))


def wrong_anywhere(text: str, rules: dict[str, list[Rule]]) -> set[str]:
    """Ids of families that there are which are not defined."""
    families = {rule.family for each in rules.values() for rule in each}
    return {each for each in named_in(text) if each not in rules and family_of(each.rstrip("0123456789")) in families}


def wrong_where_rules_are_named(text: str, rules: dict[str, list[Rule]]) -> set[str]:
    """What looks like an id and is not defined, whatever its family."""
    looks_like_one = {*named_in(text), *(found[0] for found in BARE.finditer(text))}
    return {each for each in looks_like_one if each not in rules and each.partition("-")[0] not in NO_FAMILIES}


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


def test_every_rule_of_the_connector_has_a_test_and_a_reason() -> None:
    rules = {name for name in rows_of(RULES) if name.startswith("CONN-")}
    covered = {name for path, text in files() for cited in COVERS.findall(text) for name in named_in(cited)}
    assert not sorted(rules - covered), "no test says `# covers`"
    assert not sorted(rules - set(named_in(BESIDE))), "tests/spark/README.md does not say beside what"


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


def test_what_a_file_cites() -> None:
    text = f"def test() -> None:\n    {'#'} covers KS-1,\n    # KS-2: why\n    pass\n"
    assert list(citations_of(Path("test.txt"), text)) == ["KS-1,\n    # KS-2: why"]
