"""What must be written down."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from pathlib import Path

from docs_tables import pages as made_pages

from spark_pulsar.connector.options.options import OPTIONS
from tests.architecture.sources import (
    PACKAGE,
    ROOT,
    definitions,
    package_files,
    parsed,
    python_files,
    relative,
    tracked_files,
)

README_BYTES, README_LINE = 12_000, 400
PAGE_BYTES, CODE_BY_LINE = 60_000, 25
# The rules are one table.
LONG_PAGES = {"rules.md"}
# Link of a page; name of a file, alone or with its folders, perhaps with stars; name of a folder.
LINK = re.compile(r"\]\(([^)\s]+)\)")
FILE = re.compile(r"(?<![\w/.:*-])\w[\w/.*-]*\.(?:py|md|conf|toml|yml|proto)\b")
FOLDER = re.compile(r"`([\w.][\w/.-]*/)`")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# Paths of one machine, and of nobody else's.
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|root|home)/\w")
# Folders that are made at run time.
NOT_OURS = {
    "client.conf",
    "conf/client.conf",
    "conf/standalone.conf",
    "damaged/",
    "example.py",
    "htmlcov/",
    "profiles.toml",
}
TEXT = {".py", ".md", ".toml", ".conf", ".yml", ".yaml", ".xml", ".properties", ".txt", ".proto", ""}


def test_every_module_says_what_it_is_for() -> None:
    """Tests may leave that to their names."""
    modules = [path for path in python_files() if not path.is_relative_to(ROOT / "tests")]
    assert not [relative(path) for path in modules if not ast.get_docstring(parsed(path))]


def test_everything_public_says_what_it_means() -> None:
    """Methods of a class with bases may leave that to the base."""
    silent = []
    for path in package_files():
        functions: set[str] = set()
        for name, owner, node in definitions(parsed(path)):  # a function comes before what is in it
            if not isinstance(node, ast.ClassDef):
                functions.add(name)
            is_local = name.rpartition(".")[0] in functions
            hidden = is_local or any(part.startswith("_") for part in name.split("."))
            inherits = owner is not None and bool(owner.bases)
            if not hidden and not inherits and not ast.get_docstring(node):
                silent.append(f"{relative(path)}: {name}")
    assert not silent


def test_tables_made_from_the_package_are_current() -> None:
    assert not [relative(path) for path, text in made_pages.made().items() if path.read_text() != text], "`make tables`"


def test_no_option_is_written_down_twice() -> None:
    assert len({option.name for option in OPTIONS}) == len(OPTIONS)


def pages() -> list[Path]:
    """Every page of documentation."""
    return [path for path in tracked_files() if path.suffix == ".md"]


def test_the_readme_is_short() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(readme.encode()) < README_BYTES
    assert max(len(line) for line in readme.splitlines()) < README_LINE


def test_every_page_is_reached_from_the_readme() -> None:
    linked = {ROOT / target.partition("#")[0] for target in LINK.findall((ROOT / "README.md").read_text())}
    assert [page for page in (ROOT / "docs").glob("*.md") if page not in linked] == []


def test_every_page_is_in_the_menu_of_the_site() -> None:
    menu = re.findall(r": (\S+\.md)$", (ROOT / ".ci" / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(menu) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


def test_a_page_with_code_opens_with_code() -> None:
    late = []
    for page in (ROOT / "docs").glob("*.md"):
        before, fence, _ = page.read_text().partition("```")
        if fence and before.count("\n") > CODE_BY_LINE:
            late.append(page.name)
    assert not late


def test_no_page_is_too_long_to_read() -> None:
    long_pages = {page.name for page in (ROOT / "docs").glob("*.md") if page.stat().st_size > PAGE_BYTES}
    assert long_pages == LONG_PAGES


def test_every_link_leads_somewhere() -> None:
    broken = []
    for page in pages():
        for target in LINK.findall(page.read_text()):
            if not target.startswith(("http://", "https://")):
                name, _, anchor = target.partition("#")
                path = (page.parent / name).resolve() if name else page
                if not path.exists() or (anchor and anchor not in anchors(path)):
                    broken.append(f"{relative(page)}: {target}")
    assert not broken


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(text)}


def test_every_file_and_folder_that_a_page_names_exists() -> None:
    names = {relative(path) for path in tracked_files()}
    missing = []
    for page in pages():
        text = page.read_text()
        for name in {*FILE.findall(text), *FOLDER.findall(text)} - NOT_OURS:
            if not is_there(name, page, names):
                missing.append(f"{relative(page)}: {name}")
    assert not missing


def is_there(name: str, page: Path, names: set[str]) -> bool:
    """Returns whether a path is in the repository, the package, the page's folder or, a file's mere name, anywhere."""
    if name.endswith("/"):
        return any(f"/{name}" in f"/{each}" for each in names)
    places = [name, f"{PACKAGE.name}/{name}"]
    if "*" not in name:
        anywhere = "/" not in name and any(each.endswith(f"/{name}") for each in names)
        return anywhere or not names.isdisjoint(places) or (page.parent / name).exists()
    if "/" not in name:
        places.append(f"*/{name}")
    return any(fnmatch(each, place) for place in places for each in names)


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
        if path.is_relative_to(ROOT / "tests") and "sleep" in path.read_text():
            nodes = list(ast.walk(parsed(path)))
            yields = {call.func for call in nodes if isinstance(call, ast.Call) and _is_zero(call.args)}
            for node in nodes:
                if isinstance(node, ast.Attribute | ast.Name) and _name(node) == "sleep" and node not in yields:
                    found.append(f"{relative(path)}:{node.lineno}")
    assert not found


def _is_zero(arguments: list[ast.expr]) -> bool:
    """Returns whether a call's arguments are 0 alone: `sleep(0)` of asyncio only lets others run."""
    return len(arguments) == 1 and isinstance(arguments[0], ast.Constant) and arguments[0].value == 0


def _name(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id
