"""The examples of the README and of docs/ run as they stand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_pulsar import broker_process

ROOT = Path(__file__).resolve().parents[2]
# What the first program of each page prints, in two groups that share a Spark each.
CONNECTOR_PAGES = {
    "queries": {
        "connector-guarantees": "100 copies",
        "connector-operations": "orders-job is running",
        "connector-options": "did you mean startingOffsets",
    },
    "rows": {
        "connector": "|  0|   n9|",
        "connector-read": "2 20 rows",
        "connector-schemas": "|     ada|apples|",
        "connector-security": "|    2|",
        "connector-write": "100 messages",
    },
}


def examples(page: str) -> list[str]:
    """The Python programs of a page."""
    return [part.partition("```\n")[0] for part in (ROOT / page).read_text().split("```python\n")[1:]]


def test_the_example_runs(tmp_path: Path) -> None:
    first, stream = examples("README.md")
    example = first + stream
    assert 10 <= len([line for line in example.splitlines() if line.strip()]) <= 16
    program = tmp_path / "example.py"
    program.write_text(example + "    spark.read.format('pulsar').options(**url, topic='shout').load().show()\n")
    done = subprocess.run(
        [sys.executable, str(program)],
        env=not_activated(tmp_path),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said, shouted = done.stdout.split("only showing top")[0].split("__messageProperties")
    assert [said.count(f"n{number}|") for number in range(10)] == [1] * 10
    assert shouted.count(" 21]") == 10  # `!` in the hexadecimal that show() prints of binary values


def not_activated(folder: Path) -> dict[str, str]:
    """An environment whose `python3` has no packages, and in which nobody has chosen a Python for Spark."""
    bare = folder / "bin"
    bare.mkdir()
    (bare / "python3").symlink_to(Path(sys._base_executable).resolve())  # type: ignore[attr-defined]
    own = str(Path(sys.executable).parent)
    kept = [each for each in os.environ["PATH"].split(os.pathsep) if each != own]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_")}
    return env | {"PATH": os.pathsep.join([str(bare), *kept])}


def test_the_example_of_retry_letters_runs() -> None:
    [example] = [each for each in examples("docs/connector-write.md") if "RetryLetters" in each]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "b'work' 1\n" in done.stdout


@pytest.mark.parametrize("group", CONNECTOR_PAGES)
def test_the_first_example_of_each_page_of_the_connector_runs(group: str) -> None:
    printed = CONNECTOR_PAGES[group]
    program = "\n\n".join(examples(f"docs/{page}.md")[0] for page in printed)  # as one: Spark starts once
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert {page: text for page, text in printed.items() if text not in done.stdout} == {}


def test_the_first_examples_are_of_all_pages_of_the_connector() -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("connector*.md")}
    assert pages == {page for group in CONNECTOR_PAGES.values() for page in group}


def test_the_examples_of_a_broker_run() -> None:
    told = []
    for example in examples("docs/broker.md") + examples("docs/broker-security.md"):
        done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout)
    plain, secured = told
    assert plain.startswith("pulsar://127.0.0.1:")
    assert "'service.url'" in secured
    assert secured.rstrip().endswith("client.conf")


@pytest.mark.parametrize(("page", "printed"), [("docs/cli.md", "customer-7"), ("docs/admin.md", '"msgRateIn"')])
def test_the_first_commands_of_a_page_run(page: str, printed: str) -> None:
    commands = (ROOT / page).read_text().split("```bash\n")[1].partition("```\n")[0]
    with broker_process() as broker:
        env = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PULSAR_SERVICE_URL": broker.service_url,
            "PULSAR_ADMIN_URL": broker.admin_url,
        }
        done = subprocess.run(
            ["bash", "-ec", commands], env=env, capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout


def test_the_examples_of_the_quickstart_run() -> None:
    program = "\n\n".join(examples("docs/quickstart.md"))  # both in one: Spark starts once
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "|ada  |2 apples|" in done.stdout
    assert "50 even numbers" in done.stdout
