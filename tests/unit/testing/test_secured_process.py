"""`broker_process(token=True, tls=True)`: a secured broker, and the options of its clients."""

import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import jwt
import pulsar
import pytest
from passlib.hash import bcrypt
from typer.testing import CliRunner

import spark_pulsar
from spark_pulsar.cli.main import app
from spark_pulsar.client.clock import wall_ms
from spark_pulsar.testing.process import BrokerProcess

QUIET = {"logger": pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)}


@pytest.fixture(scope="module")
def over_tls() -> Iterator[BrokerProcess]:
    """A broker with TLS alone."""
    with spark_pulsar.broker_process(tls=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def secured() -> Iterator[BrokerProcess]:
    """A broker with TLS and tokens."""
    with spark_pulsar.broker_process(token=True, tls=True) as broker:
        yield broker


def round_trip(options: dict[str, object], topic: str) -> None:
    """Publishes a message with the official client and reads it back."""
    client = pulsar.Client(**options, **QUIET)
    try:
        client.create_producer(topic).send(b"hello")
        assert client.create_reader(topic, pulsar.MessageId.earliest).read_next(30_000).data() == b"hello"
    finally:
        client.close()


def test_the_official_client_over_tls(over_tls: BrokerProcess) -> None:
    # covers SEC-84
    assert over_tls.service_url.startswith("pulsar+ssl://127.0.0.1:")
    assert over_tls.admin_url.startswith("https://127.0.0.1:")
    round_trip(over_tls.client_options, "over-tls")
    round_trip(over_tls.client_options | {"service_url": over_tls.service_url.replace("127.0.0.1", "localhost")}, "by")
    assert set(over_tls.spark_options) == {"service.url", "pulsar.client.tlsTrustCertsFilePath"}


def test_the_admin_api_over_tls(over_tls: BrokerProcess) -> None:
    # covers SEC-84
    access = over_tls.as_role("anybody")
    url = f"{over_tls.admin_url}/admin/v2/tenants"
    with urllib.request.urlopen(url, context=access.tls_context(), timeout=30) as answer:
        assert b"public" in answer.read()
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(url, timeout=30)


def test_commands_over_tls(over_tls: BrokerProcess) -> None:
    # covers SEC-82
    conf = ("--client-conf", str(over_tls.as_role("anybody").client_conf_path))
    sent = CliRunner().invoke(app, ["produce", "by-commands", "-m", "hello", *conf])
    assert (sent.exit_code, sent.stderr.startswith("1 messages sent to by-commands in ")) == (0, True)
    more = ("-s", "s", "-n", "1", "--initial-position", "earliest", "--timeout", "30", "--values-only")
    read = CliRunner().invoke(app, ["consume", "by-commands", *more, *conf])
    assert (read.exit_code, read.stdout) == (0, "hello\n")
    read = CliRunner().invoke(app, ["read", "by-commands", "--values-only", *conf])
    assert (read.exit_code, read.stdout) == (0, "hello\n")
    topics = CliRunner().invoke(app, ["admin", *conf, "topics", "list", "public/default"])
    assert "persistent://public/default/by-commands\n" in topics.stdout
    blind = CliRunner().invoke(app, ["produce", "by-commands", "-m", "hello", "--url", over_tls.service_url])
    assert blind.exit_code == 1
    assert "authorities to trust are given by --tls-trust-cert-path" in blind.stderr


def test_tokens_over_tls(secured: BrokerProcess) -> None:
    # covers SEC-84
    round_trip(secured.client_options, "with-token")
    token = secured.security.token("reader")
    assert jwt.decode(token, options={"verify_signature": False}) == {"sub": "reader"}
    expiring = secured.security.token("reader", 60)
    assert jwt.decode(expiring, options={"verify_signature": False})["exp"] > wall_ms() // 1000
    reader = secured.as_role("reader")
    assert (reader.token, reader.token_path and reader.token_path.read_text()) == (token, token)
    assert status_of(secured, reader.admin_headers) == 403
    assert status_of(secured, secured.as_role("admin").admin_headers) == 200
    assert status_of(secured, {}) == 401
    assert status_of(secured, {"Authorization": f"Bearer {token[:-2]}xx"}) == 401
    secured.restart()
    round_trip(secured.client_options, "with-token-again")


def status_of(broker: BrokerProcess, headers: dict[str, str]) -> int:
    """Returns the status of a question to the admin API."""
    request = urllib.request.Request(f"{broker.admin_url}/admin/v2/persistent/public/default", headers=headers)
    try:
        with urllib.request.urlopen(request, context=broker.as_role("x").tls_context(), timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_commands_with_a_token(secured: BrokerProcess) -> None:
    # covers SEC-82, SEC-83
    access = secured.as_role("admin")
    conf = ("--client-conf", str(access.client_conf_path))
    sent = CliRunner().invoke(app, ["produce", "by-role", "-m", "hello", *conf])
    assert (sent.exit_code, sent.stderr.startswith("1 messages sent to by-role in ")) == (0, True)
    topics = CliRunner().invoke(app, ["admin", *conf, "topics", "list", "public/default"])
    assert "persistent://public/default/by-role\n" in topics.stdout
    reader = ("consume", "by-role", "-s", "s", "-n", "1", "--initial-position", "earliest", "--values-only")
    reader_conf = ("--client-conf", str(secured.as_role("reader").client_conf_path))
    not_yet = CliRunner().invoke(app, [*reader, *reader_conf])
    assert (not_yet.exit_code, not_yet.stdout) == (1, "")
    assert "the role needs a permission" in not_yet.stderr
    grant = "namespaces grant-permission public/default --role reader --actions consume"
    assert CliRunner().invoke(app, ["admin", *conf, *grant.split()]).exit_code == 0
    assert CliRunner().invoke(app, [*reader, *reader_conf]).stdout == "hello\n"
    refused = CliRunner().invoke(app, ["produce", "t", "-m", "x", *conf, "--auth-params", "token:a.b.c"])
    assert (refused.exit_code, refused.stderr.count("\n")) == (1, 1)
    assert "Failed to authenticate" in refused.stderr
    assert "the broker does not accept the credentials of --auth-plugin org.apache" in refused.stderr
    trusting = ("--url", secured.service_url, "--tls-trust-cert-path", str(access.trust_certs_path))
    nobody = CliRunner().invoke(app, ["consume", "t", "-s", "s", *trusting])
    assert (nobody.exit_code, nobody.stderr.count("\n")) == (1, 1)
    assert "no credentials were given: --auth-plugin and --auth-params" in nobody.stderr


def test_commands_with_a_password_and_with_a_certificate(tmp_path: Path) -> None:
    # covers SEC-83
    (tmp_path / "users").write_text(f"user:{bcrypt.using(rounds=4).hash('a password')}\n")
    (tmp_path / "password").write_text('{"userId": "user", "password": "a password"}')
    conf = {"authenticationEnabled": True, "authenticationProviders": "basic,tls", "basicAuthConf": tmp_path / "users"}
    with spark_pulsar.broker_process(conf=conf, tls=True) as broker:
        certificate, key = broker.security.certificate("me")
        trusting = ("--client-conf", str(broker.as_role("me").client_conf_path))
        for plugin, params in {
            "basic": (tmp_path / "password").as_uri(),
            "tls": f"tlsCertFile:{certificate},tlsKeyFile:{key}",
        }.items():
            given = (*trusting, "--auth-plugin", plugin, "--auth-params", params)
            sent = CliRunner().invoke(app, ["produce", "t", "-m", plugin, *given])
            assert (sent.exit_code, sent.stderr.startswith("1 messages sent to t in ")) == (0, True)
            topics = CliRunner().invoke(app, ["admin", *given, "topics", "list", "public/default"])
            assert (topics.exit_code, topics.stderr) == (0, "")
        assert 'role="user"' in broker.log
        assert 'role="me"' in broker.log
        assert "a password" not in broker.log


def test_a_certificate_for_a_role(over_tls: BrokerProcess) -> None:
    # covers SEC-84
    certificate, key = over_tls.security.certificate("reader")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    context = over_tls.as_role("reader").tls_context()
    assert context is not None
    context.load_cert_chain(certificate, key)
    parts = urlsplit(over_tls.service_url)
    with (
        socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30) as connection,
        context.wrap_socket(connection, server_hostname="localhost") as tls,
    ):
        assert tls.version() == "TLSv1.3"
        assert tls.getpeercert()["subject"] == ((("commonName", "broker"),),)  # type: ignore[index]


def test_the_files_are_the_owners_and_gone_in_the_end(tmp_path: Path) -> None:
    # covers SEC-84
    broker = BrokerProcess(tmp_path / "data", token=True, tls=True)
    directory = broker.security.access("admin", "", "").client_conf_path.parent
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    secrets = [*directory.glob("*.key*"), *directory.glob("*.token")]
    assert len(secrets) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}
    token = broker.security.token("admin")
    assert token not in repr(broker.security.access("admin", "", ""))
    assert all(token not in path.read_text() for path in directory.glob("*.conf"))
    broker.close()
    assert not directory.exists()


def test_what_an_open_broker_does_not_have() -> None:
    broker = BrokerProcess()
    try:
        with pytest.raises(RuntimeError, match=r"broker_process\(token=True\)"):
            broker.security.token("reader")
        with pytest.raises(RuntimeError, match=r"broker_process\(tls=True\)"):
            broker.security.certificate("reader")
        with pytest.raises(RuntimeError, match="not started"):
            _ = broker.client_options
    finally:
        broker.close()


def test_an_open_broker_has_the_same_options() -> None:
    # covers SEC-84
    with spark_pulsar.broker_process() as broker:
        round_trip(broker.client_options, "open")
        assert broker.spark_options == {"service.url": broker.service_url}
        assert broker.as_role("anybody").tls_context() is None


def test_missing_libraries_are_named() -> None:
    # covers SEC-84
    code = (
        "import sys; sys.modules['cryptography'] = sys.modules['jwt'] = None\n"
        "import spark_pulsar\n"
        "for how in ({'token': True}, {'tls': True}):\n"
        "    try:\n"
        "        with spark_pulsar.broker_process(**how) as broker: broker.client_options\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.count("pip install 'spark-pulsar[security]'") == 2, done.stderr
