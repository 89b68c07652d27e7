"""Tokens, anonymous clients, proxies and fresh credentials: the same keys of configuration on both brokers."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import jwt
import pulsar
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from spark_pulsar.client.clock import wall_ms
from tests import changes
from tests.brokers import Broker, topic_path
from tests.conftest import started
from tests.eventually import eventually
from tests.raw import PROTOCOL_VERSION, Frame, RawConnection, command_bytes, frame_bytes

SECRET = b"a secret key of tests, which is long enough for each of HS256, HS384 and HS512"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
NO_REQUEST = (1 << 64) - 1
REFUSED = {"request_id": NO_REQUEST, "error": "AuthenticationError", "message": "Failed to authenticate"}
NAMESPACES = "/admin/v2/namespaces/public"
_numbers = itertools.count()


def _now_s() -> int:
    return wall_ms() // 1000


def _token(role: object, key: Any = SECRET, algorithm: str = "HS256", **claims: Any) -> bytes:
    described = {"sub": role, "jti": f"{next(_numbers)}", **claims}
    return jwt.encode(described, key, algorithm=algorithm).encode()


def _rsa_token(role: str, algorithm: str = "RS256", **claims: Any) -> bytes:
    return _token(role, RSA_KEY, algorithm, **claims)


def _bearer(token: bytes) -> dict[str, str]:
    return {"Authorization": f"Bearer {token.decode()}"}


def _conf(admin: bytes, **conf: str) -> Mapping[str, object]:
    return {
        "authenticationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "authenticationRefreshCheckSeconds": "1",
        "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "brokerClientAuthenticationParameters": f"token:{admin.decode()}",
        **conf,
    }


@pytest.fixture(scope="module")
def closed_broker(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that lets in tokens of a secret key."""
    directory = tmp_path_factory.mktemp("closed-broker")
    (directory / "secret.key").write_bytes(SECRET)
    admin = _token("admin")
    conf = _conf(
        admin,
        tokenSecretKey=(directory / "secret.key").as_uri(),
        authorizationEnabled="true",
        superUserRoles="admin,u,proxy",
        proxyRoles="proxy,second-proxy",
    )
    with started(broker_kind, directory / "data", conf, _bearer(admin)) as closed:
        yield closed
        closed.close_since(0)


@pytest.fixture(scope="module")
def open_broker(broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that lets in tokens of a public key and clients without any, and checks what proxies forward."""
    public = RSA_KEY.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    admin = _rsa_token("admin")
    conf = _conf(
        admin,
        tokenPublicKey=f"data:;base64,{base64.b64encode(public).decode()}",
        anonymousUserRole="guest",
        authenticateOriginalAuthData="true",
        proxyRoles="proxy",
    )
    with started(broker_kind, tmp_path_factory.mktemp("open-broker"), conf, _bearer(admin)) as opened:
        yield opened
        opened.close_since(0)


def _handshake(broker: Broker, *, refresh: bool = True, **fields: Any) -> RawConnection:
    """A connection after its CONNECT."""
    raw = broker.unconnected()
    features = {"supports_auth_refresh": refresh}
    raw.send("CONNECT", client_version="raw", protocol_version=PROTOCOL_VERSION, feature_flags=features, **fields)
    return raw


def _all(raw: RawConnection) -> list[tuple[str, Mapping[str, Any]]]:
    """Frames up to the end of the connection."""
    frames = iter(lambda: raw.next_frame(30), Frame("CLOSED"))
    return [(frame.type, frame.fields) for frame in frames if frame is not None]


# Handshakes


BAD_CREDENTIALS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "none": {"auth_method_name": "none"},
    "old number": {"auth_method": "AuthMethodNone"},
    "no data": {"auth_method_name": "token"},
    "nonsense": {"auth_method_name": "token", "auth_data": b"nonsense"},
    "prefix": {"auth_method_name": "token", "auth_data": b"Bearer " + _token("u")},
    "method": {"auth_method_name": "unknown", "auth_data": _token("u")},
    "key": {"auth_method_name": "token", "auth_data": _token("u", b"another secret key, which is as long")},
    "expired": {"auth_method_name": "token", "auth_data": _token("u", exp=1_000)},
    "too early": {"auth_method_name": "token", "auth_data": _token("u", nbf=_now_s() + 3_600)},
    "alg none": {"auth_method_name": "token", "auth_data": jwt.encode({"sub": "u"}, None, algorithm="none").encode()},
    "RS256": {"auth_method_name": "token", "auth_data": _rsa_token("u")},
    "role": {"auth_method_name": "token", "auth_data": jwt.encode({"sub": 5}, SECRET).encode()},
}


@pytest.mark.parametrize("fields", BAD_CREDENTIALS.values(), ids=BAD_CREDENTIALS.keys())
def test_handshake_without_good_credentials_is_refused(closed_broker: Broker, fields: Mapping[str, Any]) -> None:
    # covers AU-1, AU-2
    assert _all(_handshake(closed_broker, **fields)) == [("ERROR", REFUSED)]


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_token_of_the_secret_key_lets_in(closed_broker: Broker, algorithm: str) -> None:
    # covers AU-2
    token = _token("u", algorithm=algorithm, exp=_now_s() + 3_600)
    raw = _handshake(closed_broker, auth_method_name="token", auth_data=token)
    connected = raw.expect("CONNECTED")
    assert (connected["protocol_version"], connected["max_message_size"]) == (PROTOCOL_VERSION, 5_242_880)
    raw.barrier()


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_token_of_the_private_key_lets_in(open_broker: Broker, algorithm: str) -> None:
    # covers AU-2
    raw = _handshake(open_broker, auth_method_name="token", auth_data=_rsa_token("u", algorithm))
    raw.expect("CONNECTED")


def test_role_may_be_the_first_of_a_list(closed_broker: Broker) -> None:
    # covers AU-2
    token = jwt.encode({"sub": ["u", "v"]}, SECRET).encode()  # type: ignore[dict-item]
    answer = "ERROR" if closed_broker.has(changes.ONE_ROLE) else "CONNECTED"
    _handshake(closed_broker, auth_method_name="token", auth_data=token).expect(answer)


@pytest.mark.ours_only("SEC-3")
@pytest.mark.parametrize("claims", [{}, {"sub": ""}, {"sub": []}])
def test_token_without_a_role_is_refused(closed_broker: Broker, claims: Mapping[str, Any]) -> None:
    # covers SEC-3
    token = jwt.encode(dict(claims), SECRET).encode()
    assert _all(_handshake(closed_broker, auth_method_name="token", auth_data=token)) == [("ERROR", REFUSED)]


def test_commands_before_connected_end_the_connection(closed_broker: Broker) -> None:
    # covers AU-1
    connect = {"client_version": "raw", "auth_method_name": "token", "auth_data": _token("u")}
    lookup = {"topic": closed_broker.topic(), "request_id": 1}
    raw = closed_broker.unconnected()
    raw.send_bytes(frame_bytes(command_bytes("CONNECT", connect)) + frame_bytes(command_bytes("LOOKUP", lookup)))
    assert _all(raw) == []
    raw = closed_broker.unconnected()
    raw.send_bytes(frame_bytes(command_bytes("CONNECT", connect)) + frame_bytes(command_bytes("PING", {})))
    raw.expect("PONG")
    raw.expect("CONNECTED")
    raw = closed_broker.unconnected()
    raw.send("AUTH_RESPONSE", response={"auth_method_name": "token", "auth_data": _token("u")})
    assert _all(raw) == [("ERROR", REFUSED)]


# Credentials that expire


def _expiring(broker: Broker, *, refresh: bool = True) -> RawConnection:
    """A connection whose token is about to expire."""
    token = _token("u", exp=_now_s() + 2)
    raw = _handshake(broker, refresh=refresh, auth_method_name="token", auth_data=token)
    raw.expect("CONNECTED")
    return raw


def _answer(raw: RawConnection, token: bytes) -> None:
    response = {"auth_method_name": "token", "auth_data": token}
    raw.send("AUTH_RESPONSE", client_version="raw", protocol_version=PROTOCOL_VERSION, response=response)


def test_expired_token_is_asked_for_again(closed_broker: Broker) -> None:
    # covers AU-3
    fresh, twice, bad, other, silent = (_expiring(closed_broker) for _ in range(5))
    unable = _expiring(closed_broker, refresh=False)
    challenge = {"auth_method_name": "token", "auth_data": b"PulsarAuthRefresh".hex()}
    for raw in (fresh, twice, bad, other, silent):
        assert raw.expect("AUTH_CHALLENGE").fields == {"challenge": challenge, "protocol_version": PROTOCOL_VERSION}
    _answer(fresh, _token("u"))
    _answer(twice, _token("u", exp=_now_s() + 2))
    _answer(bad, _token("u", exp=1_000))
    _answer(other, _token("v"))
    assert _all(bad) == [("ERROR", REFUSED)]
    assert _all(other) == _all(silent) == _all(unable) == []
    twice.expect("AUTH_CHALLENGE")
    assert fresh.request("LOOKUP", topic=closed_broker.topic())["response"] == "Connect"


def test_fresh_token_without_a_challenge(closed_broker: Broker) -> None:
    # covers AU-3
    good, empty = (
        _handshake(closed_broker, auth_method_name="token", auth_data=_token("u", exp=_now_s() + 60)) for _ in range(2)
    )
    for raw in (good, empty):
        raw.expect("CONNECTED")
    _answer(good, _token("u"))
    assert good.request("LOOKUP", topic=closed_broker.topic())["response"] == "Connect"
    empty.send("AUTH_RESPONSE", response={"auth_method_name": "token"})
    assert _all(empty) == []


# Anonymous clients, and proxies


def test_who_shows_nothing_has_the_anonymous_role(open_broker: Broker) -> None:
    # covers AU-6, AU-11
    for fields in ({}, {"auth_method_name": "none"}, {"auth_method_name": "unknown", "auth_data": b"x"}):
        _handshake(open_broker, **fields).expect("CONNECTED")
    bad = _handshake(open_broker, auth_method_name="token", auth_data=b"nonsense")
    assert _all(bad) == [("ERROR", REFUSED)]
    assert open_broker.rest("GET", NAMESPACES)[0] == 200


def _proxied(broker: Broker, token: bytes = b"", **fields: Any) -> RawConnection:
    data = token or _rsa_token("proxy")
    return _handshake(broker, auth_method_name="token", auth_data=data, original_principal="u", **fields)


def test_credentials_that_a_proxy_forwards_are_checked(open_broker: Broker) -> None:
    # covers AU-10
    expiring = _rsa_token("u", exp=_now_s() + 2).decode()
    good = _proxied(open_broker, original_auth_method="token", original_auth_data=expiring)
    good.expect("CONNECTED")
    _proxied(open_broker).expect("CONNECTED")  # an anonymous client of the proxy
    forwarded = {"original_auth_method": "token", "original_auth_data": _rsa_token("u").decode()}
    for refused in (
        _proxied(open_broker, original_auth_method="token", original_auth_data="nonsense"),
        _proxied(open_broker, b"nonsense", **forwarded),
    ):
        assert _all(refused) == [("ERROR", REFUSED)]
    assert good.expect("AUTH_CHALLENGE")["challenge"]["auth_method_name"] == "token"
    _answer(good, _rsa_token("u"))
    assert good.request("LOOKUP", topic=open_broker.topic())["response"] == "Connect"


@pytest.mark.parametrize(
    ("role", "original"),
    [("proxy", None), ("proxy", ""), ("proxy", "proxy"), ("proxy", "second-proxy"), ("u", "v"), ("u", "u")],
)
def test_roles_that_do_not_go_together_are_refused(closed_broker: Broker, role: str, original: str | None) -> None:
    # covers AU-10
    fields = {} if original is None else {"original_principal": original}
    raw = _handshake(closed_broker, auth_method_name="token", auth_data=_token(role), **fields)
    assert _all(raw) == [
        ("ERROR", {"request_id": NO_REQUEST, "error": "AuthorizationError", "message": "Invalid roles."})
    ]


def test_roles_of_requests_that_do_not_go_together_are_refused(closed_broker: Broker) -> None:
    # covers AU-10, AU-6
    for role, original, status in (
        ("proxy", "u", 200),
        ("u", "u", 200),
        ("proxy", None, 401),
        ("proxy", "second-proxy", 401),
        ("u", "v", 401),
    ):
        headers = _bearer(_token(role)) | ({} if original is None else {"X-Original-Principal": original})
        assert closed_broker.rest("GET", NAMESPACES, headers=headers)[0] == status, (role, original)


def test_connection_of_a_proxy_ends_when_nothing_fresh_can_be_forwarded(closed_broker: Broker) -> None:
    # covers AU-10, AU-3
    token = _token("proxy", exp=_now_s() + 1)
    raw = _handshake(closed_broker, auth_method_name="token", auth_data=token, original_principal="u")
    raw.expect("CONNECTED")
    assert _all(raw) == []


# HTTP


def test_requests_need_credentials(closed_broker: Broker) -> None:
    # covers AU-6, SEC-2
    good = _bearer(_token("u"))
    assert closed_broker.rest("GET", NAMESPACES, headers=good)[0] == 200
    assert closed_broker.rest("GET", NAMESPACES, headers=good | {"X-Pulsar-Auth-Method-Name": "token"})[0] == 200
    for headers in (
        {},
        _bearer(b"nonsense"),
        _bearer(_token("u", exp=1_000)),
        {"Authorization": "Basic dTp1"},
        {"X-Pulsar-Auth-Method-Name": "token"},
        good | {"X-Pulsar-Auth-Method-Name": "unknown"},
    ):
        for method, path in (("GET", NAMESPACES), ("GET", "/admin/v2/brokers/health"), ("PUT", f"{NAMESPACES}/new")):
            assert closed_broker.rest(method, path, headers=headers)[0] == 401, headers
    assert closed_broker.rest("GET", "/metrics/" if closed_broker.kind == "apache-pulsar" else "/metrics")[0] == 200


@pytest.mark.ours_only("SEC-2")
def test_refused_request_says_why_and_probes_need_nothing(closed_broker: Broker, open_broker: Broker) -> None:
    # covers SEC-2
    assert closed_broker.rest("GET", NAMESPACES) == (401, {"reason": "Authentication required"})
    for path in ("ready", "version"):
        assert closed_broker.rest("GET", f"/admin/v2/brokers/{path}")[0] == 200
    for bad in (_bearer(b"nonsense"), _bearer(_token("u"))):
        assert open_broker.rest("GET", NAMESPACES, headers=bad) == (401, {"reason": "Failed to authenticate"})


# The official client


class Supplier:
    """A supplier of tokens that live two seconds."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        return _token("u", exp=_now_s() + 2).decode()


def test_official_client_refreshes_its_token_on_one_connection(closed_broker: Broker) -> None:
    # covers AU-2, AU-3
    supplier, topic = Supplier(), closed_broker.topic()
    client = closed_broker.client(authentication=pulsar.AuthenticationToken(supplier))
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)

    def address() -> str:
        status, stats = closed_broker.rest("GET", f"{topic_path(topic)}/stats", headers=_bearer(_token("u")))
        assert status == 200
        return str(stats["publishers"][0]["address"])

    before, calls = address(), supplier.calls
    assert eventually(lambda: supplier.calls >= calls + 2, timeout_s=20)
    producer.send(b"later")
    assert consumer.receive(10_000).data() == b"later"
    assert address() == before


def test_official_client_without_a_good_token_does_nothing(closed_broker: Broker) -> None:
    # covers AU-1
    for settings in ({}, {"authentication": pulsar.AuthenticationToken("nonsense")}):
        client = closed_broker.client(operation_timeout_seconds=1, **settings)
        with pytest.raises(pulsar.PulsarException):
            client.create_producer(closed_broker.topic())


@pytest.mark.ours_only("AU-12")
def test_log_of_the_broker_has_no_token(closed_broker: Broker) -> None:
    # covers AU-12
    marked = _token("s3cret")
    bad = marked[:-4] + b"AAAA"
    _handshake(closed_broker, auth_method_name="token", auth_data=marked).expect("CONNECTED")
    _all(_handshake(closed_broker, auth_method_name="token", auth_data=bad))
    closed_broker.rest("GET", NAMESPACES, headers=_bearer(bad))
    log: str = closed_broker.process.log  # type: ignore[union-attr]
    assert "refused" in log
    for secret in (marked, bad, SECRET):
        assert secret.decode()[:-4] not in log
        assert base64.b64encode(secret).decode() not in log
