"""The doctor names what is missing, and what to do about it."""

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import spark_pulsar
from spark_pulsar.cli.main import app

BARE = str(Path(sys._base_executable).resolve())  # type: ignore[attr-defined]
"""The Python that the environment was made of: it has none of its packages."""


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PULSAR_SERVICE_URL", "PULSAR_ADMIN_URL", "PULSAR_CLIENT_CONF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def process() -> Iterator[spark_pulsar.BrokerProcess]:
    with spark_pulsar.broker_process(token=True) as started:
        yield started


def report(*arguments: str, status: int = 0) -> dict[str, tuple[str, str]]:
    """State and text of each line, by the first words of what was looked at."""
    done = CliRunner().invoke(app, ["doctor", "-o", "json", *arguments])
    assert done.exit_code == status, done.output
    return {each["check"]: (each["state"], f"{each['found']}; {each['advice']}") for each in json.loads(done.stdout)}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_a_sound_installation(process: spark_pulsar.BrokerProcess) -> None:
    access = process.as_role("admin")
    urls = ("--service-url", process.service_url, "--admin-url", process.admin_url)
    found = report(*urls, "--auth-plugin", "token", "--auth-params", f"token:{access.token}")
    for name in (
        "python",
        "spark-pulsar",
        "protobuf",
        "numpy",
        "pyarrow",
        "python of Spark's workers",
        "spark",
        "java",
    ):
        assert found[name][0] == "ok", found[name]
    assert "p50" in found["disk sync"][1]
    broker = found[f"broker {process.service_url.partition('://')[2]}"]
    assert (broker[0], "no TLS, token" in broker[1]) == ("ok", True)
    assert found[f"admin API {process.admin_url}"][0] == "ok"


def test_credentials_and_ports_that_are_wrong(process: spark_pulsar.BrokerProcess) -> None:
    service, admin = (url.partition("://")[2] for url in (process.service_url, process.admin_url))
    found = report("--service-url", f"pulsar://{service}", "--admin-url", f"http://{admin}", status=1)
    assert found[f"broker {service}"][0] == found[f"admin API http://{admin}"][0] == "fail"
    assert "no credentials were given: --auth-plugin" in found[f"broker {service}"][1]
    assert "no credentials were given: --auth-plugin" in found[f"admin API http://{admin}"][1]
    found = report("--service-url", f"pulsar://{admin}", "--admin-url", f"http://{service}", status=1)
    assert "answers HTTP: this is the port of the admin API" in found[f"broker {admin}"][1]
    assert "something else listens there" in found[f"admin API http://{service}"][1]


def test_no_broker_is_no_failure_unless_it_was_named() -> None:
    port = free_port()
    found = report("--service-url", f"pulsar://127.0.0.1:{port}", status=1)
    assert found[f"broker 127.0.0.1:{port}"][0] == "fail"
    assert "Connection refused" in found[f"broker 127.0.0.1:{port}"][1]
    assert "spark-pulsar broker" in found[f"broker 127.0.0.1:{port}"][1]


def test_workers_of_another_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", BARE)
    state, text = report(status=1)["python of Spark's workers"]
    assert state == "fail"
    assert "(PYSPARK_PYTHON) has no spark_pulsar and no numpy" in text
    assert f"or set PYSPARK_PYTHON={sys.executable}" in text
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(f"# workers\nspark.master local\nspark.pyspark.python={sys.executable}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    state, text = report()["python of Spark's workers"]
    assert state == "ok"
    assert "spark.pyspark.python of" in text
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv("PYSPARK_PYTHON", "python9.9")
    assert "python9.9 (PYSPARK_PYTHON) cannot be started" in report(status=1)["python of Spark's workers"][1]


def test_a_spark_that_is_too_old_and_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "RELEASE").write_text("Spark 3.5.1 built for Hadoop 3.3.4\n")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = report(status=1)
    assert found["spark"][0] == found["java"][0] == "fail"
    assert "this is Spark 3.5.1; spark-pulsar needs Spark 4.0 or newer" in found["spark"][1]
    assert "install Java 17 or newer" in found["java"][1]


def test_a_place_where_nothing_can_be_written() -> None:
    found = report("--data-dir", "/proc/self/data", status=1)
    assert found["disk sync"][0] == "fail"


def test_on_a_terminal_and_in_text() -> None:
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 0, done.output
    assert [line for line in done.stdout.splitlines() if line.startswith("python\tok\t")]
