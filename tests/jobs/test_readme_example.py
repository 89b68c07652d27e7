"""The examples of the README and of docs/ run as they stand."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def examples(page: str) -> list[str]:
    """The Python programs of a page."""
    return [part.partition("```\n")[0] for part in (ROOT / page).read_text().split("```python\n")[1:]]


def test_the_example_runs(tmp_path: Path) -> None:
    [example] = examples("README.md")
    assert 10 <= len([line for line in example.splitlines() if line.strip()]) <= 16
    program = tmp_path / "example.py"
    program.write_text(example + "    spark.read.format('pulsar').options(**url, topic='upper').load().show()\n")
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}  # what an activated environment does through PATH
    command = [sys.executable, str(program)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    lower, upper = done.stdout.split("__messageProperties")[1:]
    assert lower.count("6E") >= 10  # `n` in the hexadecimal that show() prints of binary values
    assert upper.count("[4E 3") == 10


def test_the_example_of_retry_letters_runs() -> None:
    [example] = [each for each in examples("docs/connector.md") if "RetryLetters" in each]
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "b'work' 1\n" in done.stdout


def test_the_examples_of_a_broker_run() -> None:
    told = []
    for example in examples("docs/broker.md"):
        done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        told.append(done.stdout)
    plain, secured = told
    assert plain.startswith("pulsar://127.0.0.1:")
    assert "'service.url'" in secured
    assert secured.rstrip().endswith("client.conf")


def test_the_examples_of_the_quickstart_run() -> None:
    program = "\n\n".join(examples("docs/quickstart.md"))  # both in one: Spark starts once
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "|ada  |2 apples|" in done.stdout
    assert "50 even numbers" in done.stdout
