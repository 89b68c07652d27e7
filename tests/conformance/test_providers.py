"""Passwords, client certificates and limits of strangers: the same keys of configuration on both brokers."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pulsar
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from passlib.hash import bcrypt

from spark_pulsar.client.clock import wall_ms
from tests.apache_pulsar.start import free_ports
from tests.brokers import Broker
from tests.conformance.exchange import receive_texts, send_all
from tests.conftest import started
from tests.eventually import eventually
from tests.raw import PROTOCOL_VERSION, Frame, RawConnection
from tests.security.certificates import Authority
from tests.unit.client.authentication.issuer import Issuer
from tests.unit.server.security.test_openid import jwk, publish

PASSWORDS = {"admin": "s3cret-basic", "crypted": "s3cret-crypt"}
USERS = "admin:$apr1$spark123$/ojVlOmu67.WcHHFqIgCA0\ncrypted:abMauMMFQb4p6\n"
BCRYPT_PASSWORD = "s3cret:bcrypt"
CONNECTIONS = 40
NO_REQUEST = (1 << 64) - 1
REFUSED = [("ERROR", {"request_id": NO_REQUEST, "error": "AuthenticationError", "message": "Failed to authenticate"})]
NAMESPACES = "/admin/v2/namespaces/public"
JAVA = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
OPEN_ID = "org.apache.pulsar.broker.authentication.oidc.AuthenticationProviderOpenID"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
RESPONSE_TIMEOUT_S = 30


def _basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


@dataclass
class Closed:
    """A broker that lets in users and owners of certificates, and whoever comes to it."""

    broker: Broker
    tls_port: int
    https_port: int
    authority: Authority
    client_files: tuple[Path, Path]
    issuer: Issuer
    directory: Path

    def context(self, files: tuple[Path, Path] | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.path))
        if files is not None:
            context.load_cert_chain(*files)
        return context

    def over_tls(self, files: tuple[Path, Path] | None) -> RawConnection:
        """A connection of single frames over TLS."""
        raw = RawConnection("127.0.0.1", self.tls_port)
        raw._socket = self.context(files).wrap_socket(raw._socket, server_hostname="localhost")
        self.broker._opened.append(raw.close)
        return raw

    def status_over_tls(self, files: tuple[Path, Path] | None, headers: Mapping[str, str]) -> int:
        request = urllib.request.Request(f"https://localhost:{self.https_port}{NAMESPACES}", headers=dict(headers))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.context(files))
        )
        try:
            with opener.open(request, timeout=RESPONSE_TIMEOUT_S) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code


@pytest.fixture(scope="module")
def closed(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    directory = tmp_path_factory.mktemp("closed")
    authority, issuer = Authority(directory / "authority"), Issuer()
    publish(issuer, jwk("key", RSA_KEY))
    certificate, key = authority.issue("localhost", "127.0.0.1")
    tls_port, https_port = free_ports(2)
    users = directory / "htpasswd"
    users.write_text(USERS)
    providers = [f"{JAVA}Basic", f"{JAVA}Tls", OPEN_ID]
    conf: dict[str, object] = {
        "authenticationEnabled": "true",
        "basicAuthConf": users.as_uri(),
        "openIDAllowedTokenIssuers": issuer.url,
        "openIDAllowedAudiences": "pulsar",
        "openIDRequireIssuersUseHttps": "false",
        "brokerServicePortTls": str(tls_port),
        "webServicePortTls": str(https_port),
        "tlsCertificateFilePath": str(certificate),
        "tlsKeyFilePath": str(key),
        "tlsTrustCertsFilePath": str(authority.path),
        "brokerMaxConnectionsPerIp": str(CONNECTIONS),
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationBasic",
        "brokerClientAuthenticationParameters": json.dumps({"userId": "admin", "password": PASSWORDS["admin"]}),
    }
    if broker_kind == "ours":
        users.write_text(f"{USERS}bcrypted:{bcrypt.using(rounds=4).hash(BCRYPT_PASSWORD)}\n")
    conf["authenticationProviders"] = ",".join(providers)
    with ExitStack() as stack:
        stack.callback(issuer.close)
        broker = stack.enter_context(
            started(broker_kind, directory / "data", conf, _basic("admin", PASSWORDS["admin"]))
        )
        stack.callback(broker.close_since, 0)
        client_files = authority.issue("somebody.example", common_name="somebody")
        yield Closed(broker, tls_port, https_port, authority, client_files, issuer, directory)


@pytest.fixture(autouse=True)
def _close_what_the_test_opened_here(closed: Closed) -> Iterator[None]:
    mark = closed.broker.opened()
    yield
    closed.broker.close_since(mark)


def _connect(raw: RawConnection, method: str, data: bytes | None = None) -> RawConnection:
    fields = {} if data is None else {"auth_data": data}
    raw.send("CONNECT", client_version="raw", protocol_version=PROTOCOL_VERSION, auth_method_name=method, **fields)
    return raw


def _all(raw: RawConnection) -> list[tuple[str, Mapping[str, Any]]]:
    """Frames up to the end of the connection."""
    frames = iter(lambda: raw.next_frame(RESPONSE_TIMEOUT_S), Frame("CLOSED"))
    return [(frame.type, frame.fields) for frame in frames if frame is not None]


# Passwords


@pytest.mark.parametrize("user", PASSWORDS)
def test_the_right_password_lets_in(closed: Closed, user: str) -> None:
    # covers AU-4, AU-6
    _connect(closed.broker.unconnected(), "basic", f"{user}:{PASSWORDS[user]}".encode()).expect("CONNECTED")
    assert closed.broker.rest("GET", NAMESPACES, headers=_basic(user, PASSWORDS[user]))[0] == 200


@pytest.mark.parametrize(
    "data",
    [None, b"", b"admin", b"admin:", b":s3cret-basic", b"admin:wrong", b"nobody:s3cret-basic", b"admin:s3cret-Basic"],
)
def test_any_other_is_refused(closed: Closed, data: bytes | None) -> None:
    # covers AU-4, AU-1
    assert _all(_connect(closed.broker.unconnected(), "basic", data)) == REFUSED


@pytest.mark.parametrize(
    "headers",
    [
        _basic("admin", "wrong"),
        _basic("nobody", "s3cret-basic"),
        {"Authorization": "Basic !"},
        {"Authorization": "Basic"},
        {"Authorization": "Bearer s3cret-basic"},
        {},
    ],
)
def test_http_refuses_any_other(closed: Closed, headers: Mapping[str, str]) -> None:
    # covers AU-6
    assert closed.broker.rest("GET", NAMESPACES, headers=headers)[0] == 401
    assert closed.status_over_tls(None, headers) == 401


@pytest.mark.ours_only("SEC-21")
def test_bcrypt_and_colons(closed: Closed) -> None:
    # covers SEC-21
    for password, outcome in ((BCRYPT_PASSWORD, "CONNECTED"), ("s3cret", "ERROR")):
        _connect(closed.broker.unconnected(), "basic", f"bcrypted:{password}".encode()).expect(outcome)


def test_the_official_client_with_a_password(closed: Closed) -> None:
    # covers AU-4
    client = closed.broker.client(authentication=pulsar.AuthenticationBasic("admin", PASSWORDS["admin"]))
    topic = closed.broker.topic()
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), ["a", "b"])
    assert receive_texts(consumer, 2) == ["a", "b"]


# Certificates


def test_the_owner_of_a_certificate_comes_in(closed: Closed) -> None:
    # covers AU-5, AU-6
    _connect(closed.over_tls(closed.client_files), "tls").expect("CONNECTED")
    assert closed.status_over_tls(closed.client_files, {}) == 200
    client = pulsar.Client(
        f"pulsar+ssl://localhost:{closed.tls_port}",
        authentication=pulsar.AuthenticationTLS(*map(str, closed.client_files)),
        tls_trust_certs_file_path=str(closed.authority.path),
        tls_validate_hostname=True,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    topic = closed.broker.topic()
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), ["a"])
    assert receive_texts(consumer, 1) == ["a"]
    client.close()


def test_without_a_certificate_or_its_name_nobody_does(closed: Closed) -> None:
    # covers AU-5
    assert _all(_connect(closed.over_tls(None), "tls")) == REFUSED
    assert _all(_connect(closed.broker.unconnected(), "tls")) == REFUSED
    nameless = closed.authority.issue("nameless.example")
    assert _all(_connect(closed.over_tls(nameless), "tls")) == REFUSED


def test_the_method_chooses_the_provider(closed: Closed) -> None:
    # covers AU-1
    data = f"admin:{PASSWORDS['admin']}".encode()
    assert _all(_connect(closed.over_tls(closed.client_files), "basic", b"admin:wrong")) == REFUSED
    _connect(closed.over_tls(None), "basic", data).expect("CONNECTED")
    assert _all(_connect(closed.broker.unconnected(), "token", data)) == REFUSED
    assert _all(_connect(closed.broker.unconnected(), "none", data)) == REFUSED


# OpenID Connect


def _token(closed: Closed, **claims: Any) -> bytes:
    now = wall_ms() // 1000
    given = {"iss": closed.issuer.url, "sub": "alice", "aud": "pulsar", "iat": now, "nbf": now, "exp": now + 600}
    return jwt.encode(given | claims, RSA_KEY, algorithm="RS256", headers={"kid": "key"}).encode()


def test_a_token_of_an_issuer(closed: Closed) -> None:
    # covers SEC-22, SEC-23
    good, bad = _token(closed), _token(closed, aud="stranger")
    for token in (good, _token(closed, aud=["other", "pulsar"])):
        _connect(closed.broker.unconnected(), "token", token).expect("CONNECTED")
    now = wall_ms() // 1000
    flawed = [
        bad,
        _token(closed, exp=now - 60),
        _token(closed, nbf=now + 600),
        _token(closed, iss="https://stranger.example"),
        _token(closed, sub=None),
        _token(closed, aud=[]),
        jwt.encode(jwt.decode(good, options={"verify_signature": False}), "s" * 32, "HS256").encode(),
        good[:-8] + b"AAAAAAAA",
        b"a.b.c",
        b"",
    ]
    for token in flawed:
        assert _all(_connect(closed.broker.unconnected(), "token", token)) == REFUSED, token
    assert closed.broker.rest("GET", NAMESPACES, headers={"Authorization": f"Bearer {good.decode()}"})[0] == 200
    assert closed.broker.rest("GET", NAMESPACES, headers={"Authorization": f"Bearer {bad.decode()}"})[0] == 401


# Limits


def test_one_connection_too_many_is_answered_and_closed(closed: Closed) -> None:
    # covers SEC-24
    opened: list[RawConnection] = []

    def refusal() -> tuple[str, Mapping[str, Any]] | None:
        opened.append(closed.broker.unconnected())
        opened[-1].send("PING")
        frame = opened[-1].next_frame(RESPONSE_TIMEOUT_S)
        assert frame is not None
        return None if frame.type == "PONG" else (frame.type, frame.fields)

    refused = next(found for found in (refusal() for _ in range(CONNECTIONS + 1)) if found is not None)
    if closed.broker.kind == "ours":
        assert len(opened) == CONNECTIONS + 1
    host, port = opened[-1]._socket.getsockname()
    text = f"Reached the maximum number of connections on address/{host}:{port}"
    assert refused == ("ERROR", {"request_id": NO_REQUEST, "error": "NotAllowedError", "message": text})
    opened[-1].expect_closed()
    opened[0].close()
    eventually(lambda: refusal() is None)


def test_a_head_of_a_request_has_a_longest_length(closed: Closed) -> None:
    # covers SEC-27
    headers = _basic("admin", PASSWORDS["admin"])
    assert closed.broker.rest("GET", NAMESPACES, headers=headers | {"X-Filler": "x" * 6_000})[0] == 200
    assert closed.broker.rest("GET", NAMESPACES, headers=headers | {"X-Filler": "x" * 8_200})[0] == 431


# The log


@pytest.mark.ours_only("SEC-20")
def test_the_log_tells_who_did_what_and_holds_no_secret(closed: Closed) -> None:
    # covers SEC-20, AU-12
    closed.broker.rest("PUT", "/admin/v2/namespaces/public/new\n", headers=_basic("admin", PASSWORDS["admin"]))
    good, bad = _token(closed), _token(closed, aud="s3cret-audience")
    _connect(closed.broker.unconnected(), "token", good).expect("CONNECTED")
    _connect(closed.broker.unconnected(), "token", bad).expect("ERROR")
    _connect(closed.broker.unconnected(), "basic", b"s3cret-user:s3cret-typo").expect("ERROR")
    closed.broker.rest("GET", NAMESPACES, headers=_basic("admin", "s3cret-typo"))
    process = closed.broker.process
    log = Path(process.log_path).read_text()  # type: ignore[union-attr]
    lines = [line for line in log.splitlines() if "spark_pulsar.audit" in line]
    for outcome, what in (
        ("allowed", 'role="alice" action="authenticate" resource="token"'),
        ("allowed", 'role="admin" action="authenticate" resource="basic"'),
        ("allowed", 'role="somebody" action="authenticate" resource="tls"'),
        ("refused", 'action="authenticate" resource="basic" reason="unknown user or wrong password"'),
        ("refused", 'action="authenticate" resource="token" reason="the token does not hold'),
        ("allowed", 'role="admin" action="PUT" resource="/admin/v2/namespaces/public/new'),
    ):
        assert any(f"audit: {outcome} client=" in line and what in line for line in lines), (outcome, what)
    secrets = [*PASSWORDS.values(), BCRYPT_PASSWORD, "s3cret", good.decode(), bad.decode()]
    secrets += [part for token in (good, bad) for part in token.decode().split(".")[1:]]
    secrets += [line.partition(":")[2] for line in USERS.splitlines()]
    secrets += [(path.read_text().splitlines()[1]) for path in closed.directory.rglob("*.key.pem")]
    metrics = closed.broker.rest("GET", "/metrics")[1]
    assert not [secret for secret in secrets if secret in log or secret in metrics]
