"""`spark-pulsar support-bundle`: one file, without the secrets that were planted everywhere it looks."""

import contextlib
import json
import os
import socket
import stat
import threading
import zipfile
from pathlib import Path
from time import perf_counter

import pytest
from typer.testing import CliRunner, Result

from spark_pulsar import broker_process
from spark_pulsar.cli.doctor import command
from spark_pulsar.cli.main import app
from spark_pulsar.cli.support import bundle
from spark_pulsar.cli.support.masking import masked, masked_settings, masked_value
from tests.brokers import Broker
from tests.unit.cli.answering_server import AnsweringServer

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
    rf"a body of {{\"userId\":\"me\",\"password\":\"{SECRET} {SECRET}\"}} in JSON",
    f'password="{SECRET} that was cut off',
    f"repr of a line: 'x\\n{TOKEN}\\n'",
    f"pulsar://me:{SECRET}@{SECRET}@127.0.0.1:6650",
    f"Cookie: one=1; session={SECRET}",
    f"authorization: Digest {SECRET} {SECRET}",
    f'{{"private_key": "{SECRET}", "apiKey": "{SECRET}", "passphrase": "{SECRET}"}}',
    f"GET /ws/v2/consumer?token={SECRET}&pwd={SECRET} 200",
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


@pytest.mark.parametrize("part", ["eyJ", "a", "password", "password=", "token:", "://", 'pwd="', "\\", "-----BEGIN "])
def test_a_long_line_is_masked_in_no_time(part: str) -> None:
    # covers SEC-91
    began_s = perf_counter()
    masked(part * ((1 << 20) // len(part)))
    assert perf_counter() - began_s < 20


def test_the_rest_of_a_key_that_was_cut_off_is_masked() -> None:
    # covers SEC-91
    text = masked(f"{SECRET}abc\n{SECRET}def=\n-----END RSA PRIVATE KEY-----\nafter\n")
    assert (SECRET in text, text.endswith("\nafter\n")) == (False, True)


def test_members_below_a_secret_are_masked() -> None:
    # covers SEC-91
    value = masked_value({"credentials": {"value": SECRET, "all": [SECRET], "pin": 4711}, f"http://u:{SECRET}@h": 1})
    assert (SECRET in str(value), "4711" in str(value)) == (False, False)
    statistics = {"subscriptions": {"token-reader": {"type": "Shared", "msgBacklog": 5}}}
    assert masked_value(statistics, inherits=False) == statistics


def test_settings_keep_their_names() -> None:
    # covers SEC-91
    lines = (
        *(f"# tokenSecretKey={SECRET}", f"brokerClientAuthenticationParameters={SECRET}", f"authParams {SECRET}"),
        *("proxyPassword: \\", f"  {SECRET}", f"# the password is {SECRET}", "port=6650"),
    )
    text = masked_settings("".join(f"{line}\n" for line in lines))
    assert SECRET not in text
    names = [line.partition("=")[0] for line in text.splitlines()]
    assert names[:4] == ["# tokenSecretKey", "brokerClientAuthenticationParameters", "authParams", "proxyPassword"]
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


def test_what_is_broken_does_not_lose_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SEC-91
    monkeypatch.setattr(bundle, "MEMBER_BYTES", 50_000)
    monkeypatch.setattr(command, "findings_of", lambda *_: {}["gone"])
    (tmp_path / "odd\udcff\n.log").write_text("a line\n")
    (tmp_path / "foreign.log").symlink_to("/etc/hostname")
    os.chown(tmp_path / "foreign.log", 4711, 4711, follow_symlinks=False) if os.geteuid() == 0 else None
    server = AnsweringServer()
    server.answers["/admin/v2/tenants"] = 200, "[" * 40_000
    server.answers["/metrics/"] = 200, "a_metric 1\n" * 10_000
    server.answers["/admin/v2/broker-stats/load-report"] = 500, "no"
    try:
        done = run("-u", "pulsar://127.0.0.1:1", "--admin-url", server.url, "-o", "case.zip")
    finally:
        server.close()
    assert done.exit_code == 0, done.stderr
    texts = members(tmp_path / "case.zip")
    assert json.loads(texts["broker/clusters.json"]) == ["public"]
    assert len(texts["statistics/metrics.txt"]) == 50_000
    assert [name for name in texts if name.startswith("logs/")][-1] == "logs/1-odd__.log"
    missing = [line[2:].partition(":")[0] for line in texts["README.txt"].splitlines() if line.startswith("- ")]
    assert missing == ["doctor.json", "broker/tenants.json", "statistics/load.json"]


def test_a_peer_that_sends_a_byte_now_and_then_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_TIMEOUT_S", 0.5)
    monkeypatch.setattr(command, "findings_of", lambda *_: [])
    over = threading.Event()

    def trickle(peer: socket.socket) -> None:
        with contextlib.suppress(OSError), peer:
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while not over.wait(0.05):
                peer.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: trickle(server.accept()[0]), daemon=True).start()
        done = run("--admin-url", f"http://127.0.0.1:{server.getsockname()[1]}", "-o", "case.zip")
        over.set()
    assert done.exit_code == 0, done.stderr
    assert "statistics/topics.json: not complete within 0.5 s" in members(tmp_path / "case.zip")["README.txt"]


def test_a_client_conf_that_cannot_be_read_is_reported_and_the_rest_is_there(tmp_path: Path) -> None:
    (tmp_path / "client.conf").write_bytes(b"\xff\xfe")
    done = run("--client-conf", "client.conf", "-o", "case.zip")
    assert done.exit_code == 0, done.stderr
    texts = members(tmp_path / "case.zip")
    assert "broker/tenants.json: client.conf cannot be read" in texts["README.txt"]
    assert "versions.json" in texts


def test_a_device_keeps_its_place() -> None:
    done = run("-o", "/dev/full")
    assert (done.exit_code, done.stderr) == (1, "spark-pulsar: /dev/full cannot be written: it is no file\n")
    assert Path("/dev/full").is_char_device()
