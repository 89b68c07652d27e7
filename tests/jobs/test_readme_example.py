"""The examples of the README and of docs/ run as they stand."""

import os
import sys
from pathlib import Path

import pytest

from spark_pulsar import broker_process
from tests.jobs.submitting import succeed

ROOT = Path(__file__).resolve().parents[2]
# What the programs of a page print, of a page of the connector the first one. They run as one, in one Spark.
PRINTED = {
    "connector": "|  0|   n9|",
    "connector-guarantees": "100 copies",
    "connector-operations": "orders-job is running",
    "connector-options": "did you mean startingOffsets",
    "connector-read": "2 20 rows",
    "connector-schemas": "|     ada|apples|",
    "connector-security": "|    2|",
    "connector-write": "100 messages",
    "quickstart": "|ada  |2 apples|",
    "tables": "ann     3.0",
}


def examples(page: str) -> list[str]:
    """The Python programs of a page."""
    return [part.partition("```\n")[0] for part in (ROOT / page).read_text().split("```python\n")[1:]]


@pytest.mark.long
def test_the_example_runs(tmp_path: Path) -> None:
    first, stream = examples("README.md")
    example = first + stream
    assert 10 <= len([line for line in example.splitlines() if line.strip()]) <= 16
    program = tmp_path / "example.py"
    program.write_text(example + "    spark.read.format('pulsar').options(**url, topic='shout').load().show()\n")
    printed = succeed([sys.executable, program], not_activated(tmp_path))
    said, shouted = printed.split("only showing top")[0].split("__messageProperties")
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


@pytest.mark.long
def test_the_examples_of_the_pages_run() -> None:
    programs = []
    for page in PRINTED:
        parts = examples(f"docs/{page}.md")
        programs += [f"print('=== {page}')", *(parts if page == "quickstart" else parts[:1])]
    program = "\n\n".join(programs)  # as one: Spark starts once
    printed = succeed([sys.executable, "-c", program], os.environ | {"PYSPARK_PYTHON": sys.executable})
    sections = dict(section.split("\n", 1) for section in printed.split("=== ")[1:])
    assert {page: text for page, text in PRINTED.items() if text not in sections[page]} == {}
    assert "50 even numbers" in sections["quickstart"]


def test_the_example_of_retry_letters_runs() -> None:
    [example] = [each for each in examples("docs/connector-write.md") if "RetryLetters" in each]
    assert "b'work' 1\n" in succeed([sys.executable, "-c", example])


def test_the_first_examples_are_of_all_pages_of_the_connector() -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("connector*.md")}
    assert pages == PRINTED.keys() - {"quickstart", "tables"}


def test_the_examples_of_a_broker_run() -> None:
    programs = examples("docs/broker.md") + examples("docs/broker-security.md")
    plain, secured = (succeed([sys.executable, "-c", program]) for program in programs)
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
        assert printed in succeed(["bash", "-ec", commands], env)
