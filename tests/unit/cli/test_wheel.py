"""The wheel, as the build back end makes it: everything is in it that an installation needs, and it runs."""

import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[3]
KINDS = {".py", ".pyi", ".proto", ".typed"}
FOUND_BY_NAME = {
    "spark_pulsar/connector/discovery.py": "pyspark_pulsar.py",
    "spark_pulsar/connector/discovery_alias.py": "pyspark_pulsar_py.py",
    "spark_pulsar/testing/plugin.py": "pytest_spark_pulsar.py",
}
"""Sources that an installation has as modules of their own."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, as `make dist` builds it."""
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path_factory.mktemp("dist")), versions=["standard"])
    return Path(path)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the content of the wheel, as pip leaves it among the other packages."""
    place = tmp_path_factory.mktemp("installed")
    with ZipFile(wheel) as content:
        content.extractall(place)
    return place


def test_every_file_of_the_package_is_in_it(installed: Path) -> None:
    def files(root: Path) -> set[str]:
        found = (each for each in (root / "spark_pulsar").rglob("*") if each.suffix in KINDS)
        return {str(each.relative_to(root)) for each in found}

    assert files(installed) == files(ROOT) - FOUND_BY_NAME.keys()
    assert files(installed) >= {"spark_pulsar/py.typed", "spark_pulsar/wire/pulsar_api.proto"}


def test_beside_it_are_only_the_modules_that_spark_and_pytest_look_for(installed: Path) -> None:
    (info,) = installed.glob("spark_pulsar-*.dist-info")
    besides = {each.name for each in installed.iterdir()} - {"spark_pulsar", info.name}
    assert besides == set(FOUND_BY_NAME.values())
    for source, module in FOUND_BY_NAME.items():
        assert (installed / module).read_text() == (ROOT / source).read_text()
    assert (info / "licenses" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    entry_points = (info / "entry_points.txt").read_text()
    assert "spark-pulsar = spark_pulsar.cli.main:app" in entry_points
    assert "[pytest11]\nspark_pulsar = pytest_spark_pulsar\n" in entry_points


def test_it_runs(installed: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    program = "import spark_pulsar.cli.main as it; print(it.__file__); it.app(['broker', '--help'])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(installed))
    assert "--data-dir" in done.stdout


def test_spark_finds_both_formats_in_it(installed: Path, tmp_path: Path) -> None:
    """As Spark looks for them, without a checkout anywhere on the path: an error would hide all Python data sources."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import pyspark_pulsar as a, pyspark_pulsar_py as b\n"
        "print(a.__file__, b.__file__, *(each.DefaultSource.name() for each in (a, b)))\n"
        "print(hasattr(a, 'x'), hasattr(b, 'x'))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", program, str(installed)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    modules = [str(installed / module) for module in ("pyspark_pulsar.py", "pyspark_pulsar_py.py")]
    assert done.stdout.split() == [*modules, "pulsar", "pulsar-py", "False", "False"]


def test_the_package_index_takes_it_and_its_links_lead_to_the_tag(wheel: Path, installed: Path) -> None:
    checked = [sys.executable, "-m", "twine", "check", "--strict", str(wheel)]
    subprocess.run(checked, check=True, capture_output=True)
    (metadata,) = installed.glob("*.dist-info/METADATA")
    text = metadata.read_text()
    assert "\nLicense-Expression: Apache-2.0\n" in text
    _, _, readme = text.partition("\n\n")
    targets = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert "https://github.com/spark-pulsar/spark-pulsar/blob/v0.1.0/docs/quickstart.md" in targets
    assert "https://raw.githubusercontent.com/spark-pulsar/spark-pulsar/v0.1.0/docs/images/demo.svg" in targets
    assert [target for target in targets if not target.startswith("https://")] == []


READ = """
from spark_pulsar import broker_process, read_table, send_table
import pyarrow

with broker_process() as broker:
    sent = send_table(broker.service_url, "orders", pyarrow.table({"value": ["two apples"]}))
    print(sent, read_table(broker.service_url, "orders").to_pylist()[0]["value"])
"""


@pytest.mark.long
def test_it_reads_in_an_empty_environment_and_pip_adds_the_extra_that_an_error_names(
    wheel: Path, tmp_path: Path
) -> None:
    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    assert run(sys.executable, "-m", "venv", "new").returncode == 0
    python = tmp_path / "new" / "bin" / "python"
    assert run(python, "-m", "pip", "install", "-q", f"{wheel}[broker]").returncode == 0
    lacking = run(python, "-c", READ)
    cure = re.search(r"pip install '(spark-pulsar\[\w+\])'", lacking.stderr)
    assert cure is not None, lacking.stderr
    added = run(python, "-m", "pip", "install", "-q", cure[1])
    assert added.returncode == 0, added.stderr
    assert run(python, "-c", READ).stdout == "1 b'two apples'\n"
