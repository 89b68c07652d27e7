"""`spark-pulsar support-bundle`: one file, without the secrets that were planted everywhere it looks."""

import json
import stat
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spark_pulsar import broker_process
from spark_pulsar.cli.main import app
from spark_pulsar.cli.support import bundle
from spark_pulsar.cli.support.masking import masked, masked_settings
from tests.brokers import Broker

SECRET = "pl4nted"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJtZSJ9.c2lnbmF0dXJl"
KEY = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"
LINES = (
    f"Authorization: Bearer {TOKEN}",
    f"Authorization: Basic {SECRET}",
    f"connecting with token:{SECRET}, once more",
    f'{{"userId": "me", "password": "{SECRET}"}}',
    f"password={SECRET} user=me",
    f"clientSecret: '{SECRET} {SECRET}'",
    f"http://me:{SECRET}@127.0.0.1:8080/admin",
    f"tokenSecretKey=data:;base64,{SECRET}",
    f"--auth-params {TOKEN}",
    KEY,
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory that has nothing but what the test puts there."""
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["support-bundle", *words])


def members(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.mark.parametrize("line", LINES)
def test_a_line_with_a_secret_is_masked(line: str) -> None:
    # covers SEC-91
    text = masked(f"before {line}\nafter\n")
    assert (SECRET in text, TOKEN in text) == (False, False)
    assert text.startswith("before ")
    assert text.endswith("\nafter\n")


def test_settings_keep_their_names() -> None:
    # covers SEC-91
    text = masked_settings(f"# tokenSecretKey={SECRET}\nbrokerClientAuthenticationParameters={SECRET}\nport=6650\n")
    assert SECRET not in text
    assert [line.partition("=")[0] for line in text.splitlines()] == [
        *("# tokenSecretKey", "brokerClientAuthenticationParameters", "port")
    ]
    assert text.endswith("port=6650\n")


def test_a_bundle_of_a_secured_broker_has_no_secret(tmp_path: Path) -> None:
    # covers SEC-91
    (tmp_path / "broker.log").write_text("".join(f"{line}\n" for line in LINES) + "the last line\n")
    conf = tmp_path / "broker.conf"
    conf.write_text(f"tokenSecretKey=data:;base64,{SECRET}\nbrokerServicePort=6650\n")
    with broker_process(token=True) as broker:
        token = broker.as_role("admin").token
        (tmp_path / "client.conf").write_text(
            f"brokerServiceUrl={broker.service_url}\nauthPlugin=token\nauthParams=token:{token}\n"
        )
        words = ("--client-conf", "client.conf", "--admin-url", broker.admin_url, "--conf", str(conf), "-o", "case.zip")
        done = run(*words)
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    path = tmp_path / "case.zip"
    texts = members(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for name, text in texts.items():
        assert SECRET not in text, name
        assert TOKEN not in text, name
        assert token not in text, name
    assert json.loads(texts["broker/tenants.json"]), "the token was used"
    assert "the last line" in texts["logs/1-broker.log"]
    assert "brokerServicePort=6650" in texts["configuration/broker.conf"]
    assert "authPlugin=token" in texts["configuration/client.conf"]
    assert json.loads(texts["versions.json"])["python"]
    assert any(finding["check"] == "python" for finding in json.loads(texts["doctor.json"]))


def test_a_bundle_has_statistics(broker: Broker, tmp_path: Path) -> None:
    topic = broker.topic()
    broker.client().create_producer(topic).send(b"x")
    done = run("-u", broker.service_url, "--admin-url", broker.admin_url, "-o", "case.zip")
    assert done.exit_code == 0, done.stderr
    assert "case.zip: " in done.stderr
    texts = members(tmp_path / "case.zip")
    assert topic in texts["statistics/topics.json"]
    assert "pulsar_" in texts["statistics/metrics.txt"]
    assert json.loads(texts["broker/configuration.json"])["dataDirectory"]


def test_without_a_broker_the_rest_is_there(tmp_path: Path) -> None:
    done = run("-u", "pulsar://127.0.0.1:1", "--admin-url", "http://127.0.0.1:1", "-o", "case.zip")
    assert done.exit_code == 0, done.stderr
    texts = members(tmp_path / "case.zip")
    assert "statistics/topics.json: " in texts["README.txt"]
    assert "versions.json" in texts
    refused = run("-o", str(tmp_path / "none" / "case.zip"))
    assert (refused.exit_code, "cannot be written: No such file" in refused.stderr) == (1, True)


def test_a_bundle_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SEC-91
    monkeypatch.setattr(bundle, "MEMBER_BYTES", 2_000)
    for number in range(3):
        (tmp_path / f"{number}.log").write_text("a line\n" * 10_000 + "the last line\n")
    assert run("-u", "pulsar://127.0.0.1:1", "--admin-url", "http://127.0.0.1:1", "-o", "case.zip").exit_code == 0
    texts = members(tmp_path / "case.zip")
    assert all(len(text) <= 2_000 for name, text in texts.items() if name != "README.txt")
    assert [
        texts[f"logs/{number}-{name}"].endswith("the last line\n")
        for number, name in enumerate(sorted((path.name for path in tmp_path.glob("*.log")), reverse=True), start=1)
    ] == [True] * 3
