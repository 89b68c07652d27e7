"""The start of a broker and of commands that talk to one: the log level, and TLS that cannot be served."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from spark_pulsar import broker_process
from spark_pulsar.server.runner import advice_on_owner
from spark_pulsar.testing.certificates import Authority
from spark_pulsar.testing.process import BrokerDidNotStart
from tests.brokers import Broker
from tests.eventually import eventually


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "spark_pulsar", *words], capture_output=True, text=True)


def test_a_client_prints_its_log(broker: Broker) -> None:
    sent = run("produce", broker.topic(), "-m", "x", "-u", broker.service_url, "--log-level", "info")
    assert sent.returncode == 0, sent.stderr
    assert " INFO " in sent.stderr
    assert "Connected to broker" in sent.stderr


def test_the_client_ends_quietly_with_python(broker: Broker) -> None:
    topic = broker.topic()
    ends = [run("produce", topic, "-m", "x", "-u", broker.service_url) for _ in range(4)]
    assert [(each.returncode, each.stderr.count("\n")) for each in ends] == [(0, 1)] * 4


def test_an_admin_command_prints_its_calls(broker: Broker) -> None:
    done = run("admin", "--admin-url", broker.admin_url, "--log-level", "DEBUG", "tenants", "list")
    assert f"GET {broker.admin_url}/admin/v2/tenants\n" in done.stderr
    assert "public\n" in done.stdout
    refused = run("admin", "--log-level", "loud", "tenants", "list")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(("level", "is_told"), [("info", True), ("error", False)])
def test_a_broker_logs_from_a_severity_on(tmp_path: Path, level: str, is_told: bool) -> None:
    command = [sys.executable, "-m", "spark_pulsar", "broker", "--data-dir", str(tmp_path / "data")]
    command += ["--port", "0", "--http-port", "0", "--log-level", level]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        port = int(process.stdout.readline().split()[1].rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as nobody:
            nobody.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert nobody.recv(1) == b""
        process.terminate()
        assert (" INFO " in process.stderr.read()) is is_told


def test_a_data_directory_that_is_none(tmp_path: Path) -> None:
    tmp_path.joinpath("file").touch()
    for name, said in (("", "it is empty"), (str(tmp_path / "file"), f"{tmp_path / 'file'} is a file")):
        done = run("broker", "--data-dir", name)
        assert done.returncode == 2
        assert f"Invalid value for '--data-dir': {said}: name a directory; see" in done.stderr
        assert done.stderr.count("\n") == 1


def test_whose_a_directory_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    owner, own = tmp_path.owner(), os.geteuid()
    assert (
        advice_on_owner(data) == f"The broker runs as {owner}, who needs to read and write {tmp_path} and all below it"
    )
    monkeypatch.setattr(os, "geteuid", lambda: own + 54_321)
    begin = f"{tmp_path} belongs to {owner}, and the broker runs as {own + 54_321}: run it as {owner}, or give "
    assert advice_on_owner(data).startswith(begin)
    assert advice_on_owner(data).endswith(f"the directory {data} and all below it")


def test_a_broker_with_a_key_of_another_certificate_says_so_and_ends(tmp_path: Path) -> None:
    # covers SEC-42
    authority = Authority(tmp_path)
    certificate, key = authority.issue("one", ("localhost",))[0], authority.issue("other", ("localhost",))[1]
    conf = {"brokerServicePortTls": 0, "tlsCertificateFilePath": certificate, "tlsKeyFilePath": key}
    with pytest.raises(BrokerDidNotStart) as refused, broker_process(conf=conf):
        pass
    text = str(refused.value)
    assert f"cannot start: tlsKeyFilePath={key}: the key does not fit the certificate" in text
    assert "Traceback" not in text


def test_a_client_without_tls_on_the_port_with_it_is_one_line_of_the_log() -> None:
    # covers SEC-45
    with broker_process(tls=True) as broker:
        port = int(broker.service_url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), 30) as sock:
            sock.sendall(b"\x00\x00\x00\x0b\x00\x00\x00\x07\x08\x02\x12\x03\x0a\x01x")
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(100):
                pass
        line = eventually(lambda: [each for each in broker.log.splitlines() if "TLS handshake of /" in each])
        assert len(line) == 1
        assert "Traceback" not in broker.log
