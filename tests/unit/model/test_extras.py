"""Extras: what is not installed is named with the extra that has it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from spark_pulsar.model import extras

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {
    "jwt": "pyjwt",
    "passlib": "libpass",
    "prometheus_client": "prometheus-client",
    "pulsar": "pulsar-client",
    "re2": "google-re2",
    "yaml": "pyyaml",
}
"""Libraries whose distribution has another name."""


def test_every_library_is_in_the_extra_that_is_named() -> None:
    for library, extra in extras._EXTRA_OF.items():
        named = {re.split(r"[\[>;]", line)[0] for line in PROJECT["optional-dependencies"][extra]}
        assert DISTRIBUTIONS.get(library, library) in named


def test_no_extra_but_its_own_brings_the_large_libraries() -> None:
    large = {"numpy", "pyarrow", "numba", "pulsar-client", "pyspark", "uvloop", "fastavro"}
    light = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["broker"]]
    assert not {re.split(r"[\[>;]", line)[0] for line in light} & large


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_EXTRA_OF", {"no_such_thing": "fast"})
    with pytest.raises(extras.MissingLibrary, match=r"^it needs no_such_thing: pip install 'spark-pulsar\[fast\]'$"):
        extras.require("it", "sys", "no_such_thing")
    extras.require("it", "sys")
    error = ModuleNotFoundError("No module named 'no_such_thing.part'", name="no_such_thing.part")
    assert extras.installation_of(error) == "no_such_thing is not installed: pip install 'spark-pulsar[fast]'"
    assert extras.installation_of(ModuleNotFoundError("x", name="elsewhere")) is None


@pytest.mark.parametrize(
    ("missing", "program", "said"),
    [
        (
            "uvicorn",
            "from spark_pulsar.cli.main import app; app(['broker', '--data-dir', sys.argv[1], '--port', '0'])",
            "spark-pulsar: a broker needs uvicorn: pip install 'spark-pulsar[broker]'",
        ),
        (
            "pyarrow",
            "import spark_pulsar.connector.source",
            "format(\"pulsar\") needs pyarrow: pip install 'spark-pulsar[connector]'",
        ),
        (
            "fastavro",
            "import spark_pulsar.connector.schemas.decoding.avro.decoder",
            "decoding AVRO messages needs fastavro: pip install 'spark-pulsar[connector]'",
        ),
    ],
)
def test_what_needs_an_extra_says_so(missing: str, program: str, said: str, tmp_path: Path) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None\n{program}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "data")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(said)
