"""The documentation site builds without a warning: every link, anchor and name of the Python API exists."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", ".ci/mkdocs.yml", "-d", str(tmp_path)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    api = (tmp_path / "api.html").read_text()
    assert "spark_pulsar.testing.process.broker_process" in api
    for page in tmp_path.rglob("*.html"):  # a page asks no other host for anything
        assert 'src="http' not in page.read_text(), page
