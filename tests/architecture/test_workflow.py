"""The workflow of GitHub calls what exists. (Its form was checked by GitHub's schema: check-jsonschema.)"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from typing import Any

import yaml

from tests.apache_pulsar.start import VERSIONS
from tests.architecture.sources import ROOT

WORKFLOW, RELEASE = (
    yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text()) for name in ("ci.yml", "release.yml")
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINNED = re.compile(r"actions/[a-z-]+@[0-9a-f]{40}")


def commands(workflow: dict[str, Any] = WORKFLOW) -> Iterator[str]:
    """Every command, with each value of its job's matrix."""
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            run = step.get("run", "")
            suites = job.get("strategy", {}).get("matrix", {}).get("suite", [""])
            yield from (run.replace("${{ matrix.suite }}", suite) for suite in suites)


def test_every_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = {target for command in commands() for target in re.findall(r"^make ([a-z-]+)", command)}
    assert called <= targets
    assert called >= {"test", "test-clients", "test-apache-pulsar", "test-cluster", "test-matrix", "docs"}


def test_every_suite_of_the_script_of_ci_is_called_on_every_version_of_apache_pulsar() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    suites = re.findall(r"^(make .*)$", script, re.MULTILINE)
    turns = {suite.replace('"$turn"', version) for suite in suites for version in VERSIONS}
    assert turns <= set(commands())
    read = subprocess.run(
        ["bash", "-c", re.search(r"^read .*$", script, re.MULTILINE)[0] + '; echo "${versions[*]}"'],  # type: ignore[index]
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert read.stdout.split() == list(VERSIONS)


def test_every_extra_exists_and_every_file_is_there() -> None:
    every = re.findall(r"\.\[([\w,]+)\]", "\n".join(commands()))
    assert {name for names in every for name in names.split(",")} <= PROJECT["optional-dependencies"].keys()
    for path in re.findall(r"-f (\S+)", "\n".join(commands())):
        assert (ROOT / path).is_file()


def test_every_python_that_the_package_runs_on_is_tested() -> None:
    tested = WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert f">={tested[0]}" == PROJECT["requires-python"]
    assert tested == [f"3.{minor}" for minor in range(11, 11 + len(tested))]


def test_actions_are_pinned_and_jobs_end() -> None:
    for workflow in (WORKFLOW, RELEASE):
        used = [step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step]
        assert [action for action in used if not PINNED.fullmatch(action)] == []
        assert all(job["timeout-minutes"] <= 90 for job in workflow["jobs"].values())
        assert workflow["permissions"] == {"contents": "read"}


def test_a_tag_publishes_what_make_dist_builds_once_it_is_approved() -> None:
    assert RELEASE[True] == {"push": {"tags": ["v*"]}}  # YAML's `on`
    build, publish = RELEASE["jobs"]["build"], RELEASE["jobs"]["publish"]
    steps = [step["run"] for step in build["steps"] if "run" in step]
    assert "make dist" in steps
    assert "permissions" not in build  # what builds may publish nothing
    assert (publish["needs"], publish["environment"]) == ("build", "release")
    [test] = [word for step in steps for word in step.split() if word.startswith("tests/")]
    assert (ROOT / test).is_file()
    version = re.search(r'^__version__ = "(.+)"$', (ROOT / "spark_pulsar" / "__init__.py").read_text(), re.MULTILINE)
    assert version is not None
    assert version[1] == PROJECT["version"]
