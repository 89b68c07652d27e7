"""`make setup` makes the environment without Java and tells what is missing; what needs Java ends with a clear line."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONNECTOR = "spark_pulsar/connector"
READ = (
    *("pyproject.toml", ".ci/constraints.txt", ".ci/setup"),
    *(f"{CONNECTOR}/discovery.py", f"{CONNECTOR}/discovery_alias.py", "spark_pulsar/testing/plugin.py"),
)
"""Files that the environment is made of, in the order in which they are read."""
TOOLS = ("bash", "env", "cat", "sed", "sha256sum", "dirname", "head", "id", "grep", "awk", "tee", "mkdir")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree whose environment is ready, on a machine without Java and without apt."""
    tree, tools, environment = tmp_path / "tree", tmp_path / "tools", tmp_path / "tree" / ".venv" / "bin"
    environment.mkdir(parents=True)
    tools.mkdir()
    for name in READ:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    (environment / "python").symlink_to(sys.executable)
    digest = hashlib.sha256(b"".join((tree / name).read_bytes() for name in READ)).hexdigest()
    (tree / ".venv" / ".ready").write_text(f"{digest}  -\n")
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    return tree


def setup(tree: Path, *wanted: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": str(tree.parent / "tools"), "HOME": str(tree)}
    command = ["bash", ".ci/setup", *wanted]
    return subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_without_java_the_environment_is_ready_and_says_so(tree: Path) -> None:
    done = setup(tree)
    assert done.returncode == 0, done.stderr
    assert "Java 17 or newer is missing: broker and commands need none" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("wanted", ["java", "maven"])
def test_what_needs_java_ends_with_the_reason(tree: Path, wanted: str) -> None:
    done = setup(tree, wanted)
    assert done.returncode == 1
    assert "Java 17 or newer is missing, which Spark needs: install it, or set JAVA_HOME" in done.stderr


def test_the_lines_of_pip_become_a_few(tree: Path) -> None:
    script = (tree / ".ci" / "setup").read_text()
    function = script[script.index("progress() {") : script.index("# An environment that is there is kept")]
    lines = [f"Collecting package{number}==1" for number in range(80)]
    lines.insert(50, "  Downloading large-1-py3-none-any.whl (55.0 MB)")
    lines += ["DEPRECATION: a wall of text", "Building wheels for collected packages: one, two"]
    lines += ["Installing collected packages: one, two, three", "ERROR: no such package"]
    program = f"set -euo pipefail\n{function}\nprogress .venv/setup.log"
    env = {"PATH": str(tree.parent / "tools")}
    done = subprocess.run(
        ["bash", "-c", program], input="\n".join(lines), cwd=tree, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "  40 packages found",
        "  downloading large-1-py3-none-any.whl (55.0 MB)",
        "  80 packages found",
        "  building 2 of them",
        "  installing 3 packages",
        "  ERROR: no such package",
    ]
    assert "DEPRECATION" in (tree / ".venv" / "setup.log").read_text()
