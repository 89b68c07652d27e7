"""No docstring of the package begins with a word that hides the noun: its first word is a verb or the noun itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.architecture.sources import package_files, parsed, relative

WORDS = (
    *("What", "Who", "Whose", "Whom", "Whoever", "Which", "How", "Where", "When", "Whether", "If"),
    *("Nobody", "Somebody", "Everybody", "So many", "So much", "The same", "One that", "Ones", "All that"),
    *("That", "Those", "These", "It", "They", "Else", "Such", "Also", "Beside", "Not"),
    *("As", "Of", "To", "For", "By", "From", "In", "At"),
)
HIDES_THE_NOUN = re.compile(rf"(?:{'|'.join(WORDS)})(?=[\s,;:.]|$)")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text) of every docstring: of modules, classes and functions, and texts below assignments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text
        body = getattr(node, "body", None)
        if isinstance(body, list):
            for before, after in pairwise(body):
                if isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(after, ast.Expr):
                    value = after.value
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        yield after.lineno, value.value


def test_no_docstring_begins_with_a_word_that_hides_the_noun() -> None:
    offenders = [
        f"{relative(path)}:{line}: {text.splitlines()[0]}"
        for path in package_files()
        for line, text in docstrings(parsed(path))
        if HIDES_THE_NOUN.match(text)
    ]
    assert not offenders, "begin with a verb in the third person, or with the noun:\n" + "\n".join(offenders)


# ---- the proof itself -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hides"),
    [
        ("What a consumer holds.", True),
        ("So much of a ledger.", True),
        ("The same for batches.", True),
        ("As `run`, by column.", True),
        ("Closes the consumer.", False),
        ("Items of a list.", False),
        ("The samples of a rate.", False),
        ("In-memory twin of the storage.", False),
    ],
)
def test_words_that_hide_the_noun(text: str, hides: bool) -> None:
    assert bool(HIDES_THE_NOUN.match(text)) == hides


def test_docstrings_are_those_of_attributes_too() -> None:
    tree = ast.parse('"""M."""\n\nX = 1\n"""A."""\n\n\nclass C:\n    """C."""\n\n    y: int = 2\n    """Y."""\n')
    assert sorted(docstrings(tree)) == [(1, "M."), (4, "A."), (8, "C."), (11, "Y.")]
