"""Sentences and names of the project: a docstring begins with a verb or its noun, and no sentence of the package or the
docs, nor a name of the package, has a word of the dialect that `DIALECT` lists with what to write instead."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, package_files, parsed, relative, tracked_files

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


# ---- words ----------------------------------------------------------------------------------------------------------

DIALECT = {
    r"tell|tells|telling|told": "returns, reports, logs, raises, shows",
    r"ask|asks|asked|asking": "requests, queries, prompts, requires",
    r"(?:look|looks|looked|looking)(?! (?:up|ahead)\b)(?!-)(?! \S+ up\b)": "checks, inspects, reads, searches for",
    r"forget|forgets|forgetting|forgot|forgotten": "removes, discards, loses",
    r"(?:let|lets|letting) go": "releases, discards",
    r"nobody|somebody|everybody|anybody|whoever": "no client, another process, every role, the user",
    r"at hand": "in memory, kept, ready",
    r"(?:give|gives|giving|gave|given) (?:up|way)": "discards, closes, yields, loses",
}
SENTENCES = {
    re.compile(rf"(?<![\w.-])(?:{words})\b".replace(" ", r"\s+"), re.IGNORECASE): instead
    for words, instead in DIALECT.items()
}
ALLOWED = {
    ("spark_pulsar/connector/task_log.py", "given up"): "value of a log field that operators filter by",
    ("docs/connector-operations.md", "given up"): "the same value",
}
NAMES = re.compile(
    r"(?:^|_)(?:tells?|told|asks?|asked|asking|looks?(?!_ahead)|looked|looking|forgets?|forgot|forgotten|forgetting)(?=_|$)"
    r"|_or_not|let_go|give_up|give_way"
    r"|^_*(?:each|found|whole)$"
)
"""Names that are refused anywhere in the package; Pulsar's own look-ahead (`look_ahead`) is allowed."""
ALLOWED_NAMES = {
    ("spark_pulsar/cli/doctor/findings.py", "found"): "column of what `doctor` prints, which scripts read",
}
FUNCTIONS = re.compile(r"_*take(?:_|$)")
"""Names of functions that hide the verb: store, accept, acquire, spend, remove."""


def texts(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of every comment and string constant of a module: docstrings, messages and help texts. None of a
    module without a word of the dialect anywhere, because splitting into tokens is slow."""
    if not any(pattern.search(source) for pattern in SENTENCES):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING) or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            yield token.start[0], token.string


def dialect_in(text: str) -> Iterator[tuple[int, str, str]]:
    """(lines before it, words, what to write instead) of every word of the dialect, also across the end of a line."""
    for pattern, instead in SENTENCES.items():
        for found in pattern.finditer(text):
            yield text.count("\n", 0, found.start()), " ".join(found[0].split()), instead


def stated_names(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """(line, name, is a function's) of every class, function, parameter, variable, caught error and attribute that a
    module sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name, True
        elif isinstance(node, ast.ClassDef):
            yield node.lineno, node.name, False
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg, False
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id, False
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr, False
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.lineno, node.name, False


def is_refused(name: str, *, is_function: bool) -> bool:
    """Returns whether a name is of the dialect."""
    return bool(NAMES.search(name.lower()) or (is_function and FUNCTIONS.match(name)))


def docs() -> list[Path]:
    """Pages that users and contributors read; CHANGELOG.md keeps the words of its time."""
    pages = [path for path in tracked_files() if path.suffix == ".md"]
    return [
        path for path in pages if path.parent == ROOT / "docs" or path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md")
    ]


def offences(path: Path, found: Iterator[tuple[int, str]]) -> Iterator[str]:
    """Lines of a file with words of the dialect, without those that are allowed."""
    for line, text in found:
        for further, words, instead in dialect_in(text):
            if (relative(path), words) not in ALLOWED:
                yield f"{relative(path)}:{line + further}: {words!r}: {instead}"


def test_no_sentence_of_the_package_has_a_word_of_the_dialect() -> None:
    offenders = [line for path in package_files() for line in offences(path, texts(path.read_text()))]
    assert not offenders, "\n".join(offenders)


def test_no_page_of_the_docs_has_a_word_of_the_dialect() -> None:
    offenders = [line for path in docs() for line in offences(path, iter([(1, path.read_text())]))]
    assert not offenders, "\n".join(offenders)


def test_no_name_of_the_package_is_of_the_dialect() -> None:
    offenders = [
        f"{relative(path)}:{line}: {name}"
        for path in package_files()
        for line, name, is_function in stated_names(parsed(path))
        if is_refused(name, is_function=is_function) and (relative(path), name) not in ALLOWED_NAMES
    ]
    assert not offenders, "name the noun of the value, or the verb of what happens:\n" + "\n".join(offenders)


def test_every_allowed_word_is_used() -> None:
    unused = [key for key in (*ALLOWED, *ALLOWED_NAMES) if not re.search(key[1], (ROOT / key[0]).read_text())]
    assert not unused


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Tells whether it is open.", ["Tells"]),
        ("The broker is asked\n    for it.", ["asked"]),
        ("Looks at the header, and lets\n    go of it.", ["Looks", "lets go"]),
        ("Looks up the topic; looks `name` up; a look-up, a lookup and a look-ahead.", []),
        ("# given up, as the task's end", ["given up"]),
        ("file.tell() and `source.tell()`", []),
        ("A forgetful task; SequenceIdForgotten.", []),
    ],
)
def test_words_of_the_dialect(text: str, words: list[str]) -> None:
    assert [found for _, found, _ in dialect_in(text)] == words


def test_texts_are_comments_and_strings() -> None:
    found = [text for _, text in texts('x = y.tell()  # why\nz = f"told {x}"\n')]
    assert "# why" in found
    assert any("told" in text for text in found)
    assert not any("tell()" in text for text in found)


@pytest.mark.parametrize(
    ("name", "is_function", "refused"),
    [
        ("_look", True, True),
        ("look_ahead", False, False),
        ("_asked_ms", False, True),
        ("is_taken", True, False),
        ("_take_each", True, True),
        ("take", False, False),
        ("store_or_not", True, True),
        ("SequenceIdForgotten", False, False),
        ("forget_topic", True, True),
        ("task", False, False),
        ("_each", True, True),
        ("found", False, True),
        ("is_found", False, False),
    ],
)
def test_names_of_the_dialect(name: str, is_function: bool, refused: bool) -> None:
    assert is_refused(name, is_function=is_function) == refused
