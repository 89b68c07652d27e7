"""`uv.lock` fits the package and names public places alone; `uv lock` renews it."""

from __future__ import annotations

import re
import tomllib

from tests.architecture.sources import ROOT

TEXT = (ROOT / "uv.lock").read_text()
MOST_BYTES = 1_500_000


def test_it_names_the_public_index_alone() -> None:
    hosts = set(re.findall(r"https?://([^/\"]+)", TEXT))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}
    assert len(TEXT) < MOST_BYTES


def test_it_has_what_the_package_and_its_extras_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for some in project["optional-dependencies"].values() for line in some)]
    wanted = {re.split(r"[\[<>=;]", line)[0].strip() for line in lines} - {project["name"]}
    packages = tomllib.loads(TEXT)["package"]
    [own] = [package for package in packages if package["name"] == project["name"]]
    assert {need["name"] for need in own["metadata"]["requires-dist"]} - {project["name"]} == wanted
    assert wanted <= {package["name"] for package in packages}
