"""OpenID Connect: tokens of an issuer on loopback, and the keys that it is asked for."""

import dataclasses
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.server.configuration.reading import InvalidConfiguration, load_config
from spark_pulsar.server.configuration.server_config import ServerConfig
from spark_pulsar.server.security.openid import MAX_TOKEN_BYTES, OpenIdProvider
from spark_pulsar.server.security.openid_keys import RETRY_S, WELL_KNOWN_PATH, IssuerKeys
from spark_pulsar.server.security.provider import Credentials
from tests.eventually import eventually
from tests.unit.client.authentication.issuer import Issuer

RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC256, EC384 = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP384R1())
KEYS = {"rsa": RSA, "ec256": EC256, "ec384": EC384}


def jwk(key_id: str, key: Any, **more: str) -> dict[str, Any]:
    kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": key_id, **more}


def publish(issuer: Issuer, *keys: dict[str, Any], named: str | None = None) -> None:
    """The issuer gives these keys from now on."""
    issuer.documents[WELL_KNOWN_PATH] = {"issuer": named or issuer.url, "jwks_uri": f"{issuer.url}/keys"}
    issuer.documents["/keys"] = {"keys": list(keys)}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    one = Issuer()
    publish(one, *(jwk(name, key) for name, key in KEYS.items()))
    yield one
    one.close()


def config_of(*issuers: str, **settings: Any) -> ServerConfig:
    settings = {"openid_allowed_audiences": ("pulsar", "other"), "openid_require_https": False} | settings
    return ServerConfig(broker=BrokerConfig(), openid_allowed_issuers=issuers, **settings)


def token(issuer: str, key: Any = RSA, algorithm: str = "RS256", key_id: str | None = "rsa", **claims: Any) -> bytes:
    """A token; a claim of None is left out."""
    now = time.time_ns() // 10**9
    given = {"iss": issuer, "sub": "alice", "aud": "pulsar", "iat": now, "nbf": now, "exp": now + 600} | claims
    given = {name: value for name, value in given.items() if value is not None}
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode(given, key, algorithm=algorithm, headers=headers).encode()


def role(provider: OpenIdProvider, data: bytes) -> str:
    return provider.authenticate(Credentials("token", data), 0).role


def refused(provider: OpenIdProvider, data: bytes, match: str) -> None:
    with pytest.raises(AuthenticationError, match=match) as told:
        provider.authenticate(Credentials("token", data), 0)
    text = str(told.value)
    assert not any(part and part.decode("ascii", "replace") in text for part in data.split(b".") if len(part) > 8)


@pytest.mark.parametrize(
    ("key_id", "algorithm"),
    [("rsa", "RS256"), ("rsa", "RS384"), ("rsa", "RS512"), ("ec256", "ES256"), ("ec384", "ES384")],
)
def test_a_token_of_an_allowed_issuer_gives_its_subject_and_its_end(
    issuer: Issuer, key_id: str, algorithm: str
) -> None:
    # covers SEC-22, SEC-23
    provider = OpenIdProvider.from_config(config_of(issuer.url))
    given = token(issuer.url, KEYS[key_id], algorithm, key_id, exp=4_000_000_000)
    found = provider.authenticate(Credentials("token", given), 0)
    assert (found.role, found.expires_ms) == ("alice", 4_000_000_000_000)
    assert role(provider, token(issuer.url)) == "alice"
    assert issuer.fetched == [WELL_KNOWN_PATH, "/keys"]


def test_the_role_may_be_another_claim_and_the_first_of_a_list(issuer: Issuer) -> None:
    # covers SEC-22
    provider = OpenIdProvider.from_config(config_of(issuer.url, openid_role_claim="roles"))
    assert role(provider, token(issuer.url, roles="one")) == "one"
    assert role(provider, token(issuer.url, roles=["first", "second"])) == "first"
    for wrong in (None, [], [1], 7, "", {"a": "b"}):
        refused(provider, token(issuer.url, roles=wrong), "no claim roles")


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 1_000}, "ExpiredSignatureError"),
        ({"nbf": 4_000_000_000}, "ImmatureSignatureError"),
        ({"iat": 4_000_000_000}, "ImmatureSignatureError"),
        ({"aud": "stranger"}, "InvalidAudienceError"),
        ({"iss": "https://stranger.test"}, "none of openIDAllowedTokenIssuers"),
        ({"iss": None}, "none of openIDAllowedTokenIssuers"),
        ({"sub": 7}, "InvalidSubjectError"),
        ({"exp": "soon"}, "DecodeError"),
        ({"exp": float("inf")}, "DecodeError"),
        *(({name: None}, "Missing") for name in ("exp", "iat", "nbf", "sub", "aud")),
    ],
)
def test_a_claim_that_does_not_hold_refuses_the_token(issuer: Issuer, claims: dict[str, Any], reason: str) -> None:
    # covers SEC-22
    refused(OpenIdProvider.from_config(config_of(issuer.url)), token(issuer.url, **claims), reason)


def test_clocks_may_differ_by_the_leeway(issuer: Issuer) -> None:
    # covers SEC-22
    provider = OpenIdProvider.from_config(config_of(issuer.url, openid_leeway_seconds=1000))
    now = time.time_ns() // 10**9
    assert role(provider, token(issuer.url, exp=now - 500, nbf=now + 500, iat=now + 500)) == "alice"
    refused(provider, token(issuer.url, exp=now - 1500), "ExpiredSignatureError")


def test_algorithms_and_keys_must_fit(issuer: Issuer) -> None:
    # covers SEC-22
    publish(issuer, jwk("rsa", RSA, alg="RS256"), jwk("ec256", EC256), jwk("ec384", EC384), jwk("enc", RSA, use="enc"))
    provider = OpenIdProvider.from_config(config_of(issuer.url))
    assert role(provider, token(issuer.url)) == "alice"
    refused(provider, token(issuer.url, RSA, "RS512"), "not that of its key")  # the issuer names RS256
    refused(provider, token(issuer.url, EC384, "ES384", "ec256"), "not that of its key")
    refused(provider, token(issuer.url, EC256, "ES256", "rsa"), "not that of its key")
    refused(provider, token(issuer.url, RSA, "RS256", "ec256"), "not that of its key")
    refused(provider, token(issuer.url, OTHER_RSA), "InvalidSignatureError")
    refused(provider, token(issuer.url, "s" * 32, "HS256"), "not signed with RS256")
    refused(provider, token(issuer.url, None, "none"), "not signed with RS256")
    refused(provider, token(issuer.url, RSA, "PS256"), "not signed with RS256")
    refused(provider, token(issuer.url, key_id=None), "names no key")
    refused(provider, token(issuer.url, key_id="enc"), "a key that its issuer does not have")


NOBODYS = OpenIdProvider.from_config(config_of("https://nobody.test"))


@settings(max_examples=50)
@given(data=st.binary(max_size=100) | st.text(alphabet="eyJ.0aA-_=", max_size=60).map(str.encode))
def test_no_bytes_get_in_nor_break_it(data: bytes) -> None:
    # covers SEC-22
    with pytest.raises(AuthenticationError):
        role(NOBODYS, data)


def test_a_token_has_a_largest_size(issuer: Issuer) -> None:
    # covers SEC-22
    provider = OpenIdProvider.from_config(config_of(issuer.url))
    refused(provider, b"x" * (MAX_TOKEN_BYTES + 1), "more than")
    refused(provider, b"x" * MAX_TOKEN_BYTES, "DecodeError")


def test_issuers_that_are_not_allowed_are_never_asked(issuer: Issuer) -> None:
    # covers SEC-23
    provider = OpenIdProvider.from_config(config_of("https://nobody.test"))
    refused(provider, token(issuer.url), "none of")
    assert not issuer.fetched


class Time:
    """A clock that the test moves."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Time:
    return Time()


def test_an_unknown_key_is_asked_for_at_a_bounded_rate(issuer: Issuer, clock: Time) -> None:
    # covers SEC-23
    keys = IssuerKeys(config_of(issuer.url, openid_unknown_key_seconds=100), clock)
    keys.find(issuer.url, "rsa")
    publish(issuer, jwk("new", OTHER_RSA))
    for _ in range(20):
        with pytest.raises(AuthenticationError, match="does not have"):
            keys.find(issuer.url, "new")
    assert issuer.fetched.count("/keys") == 1
    clock.now_s += 100
    keys.find(issuer.url, "new")
    with pytest.raises(AuthenticationError):
        keys.find(issuer.url, "rsa")
    assert issuer.fetched.count("/keys") == 2


def test_old_keys_are_fetched_again_while_they_serve_and_expire(issuer: Issuer, clock: Time) -> None:
    # covers SEC-23
    config = config_of(issuer.url, openid_cache_refresh_seconds=100, openid_cache_expiration_seconds=200)
    keys = IssuerKeys(config, clock)
    keys.find(issuer.url, "rsa")
    clock.now_s += 100
    keys.find(issuer.url, "rsa")
    eventually(lambda: issuer.fetched.count("/keys") == 2)
    eventually(lambda: not any(each.name == "openid-keys" for each in threading.enumerate()))
    issuer.status = 500
    clock.now_s += 199
    keys.find(issuer.url, "rsa")
    eventually(lambda: len(issuer.fetched) == 5)  # in vain: the old ones serve
    eventually(lambda: not any(each.name == "openid-keys" for each in threading.enumerate()))
    clock.now_s += RETRY_S
    with pytest.raises(AuthenticationError, match="status 500"):
        keys.find(issuer.url, "rsa")


def test_an_issuer_that_fails_is_left_alone_for_a_while(issuer: Issuer, clock: Time) -> None:
    # covers SEC-23
    issuer.status = 503
    keys = IssuerKeys(config_of(issuer.url), clock)
    for _ in range(20):
        with pytest.raises(AuthenticationError, match="status 503"):
            keys.find(issuer.url, "rsa")
    assert len(issuer.fetched) == 1
    issuer.status = 200
    clock.now_s += RETRY_S
    keys.find(issuer.url, "rsa")


def test_threads_that_need_keys_at_once_fetch_them_once(issuer: Issuer) -> None:
    # covers SEC-23
    keys = IssuerKeys(config_of(issuer.url))
    threads = [threading.Thread(target=keys.find, args=(issuer.url, "rsa")) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert issuer.fetched == [WELL_KNOWN_PATH, "/keys"]


def test_a_slow_issuer_holds_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers SEC-23
    monkeypatch.setattr("spark_pulsar.server.security.openid_keys.SLOW_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        provider = OpenIdProvider.from_config(config_of(url, openid_read_timeout_ms=60_000))
        first = threading.Thread(target=refused, args=(provider, token(url), "cannot fetch"))
        first.start()
        taken, _ = silent.accept()
        for _ in range(10):
            refused(provider, token(url), "takes long")
        taken.close()
        first.join()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda one: one.documents.pop("/keys"), "status 404"),
        (lambda one: publish(one, named="https://other.test"), "of another issuer"),
        (lambda one: one.documents.update({WELL_KNOWN_PATH: []}), "lacks issuer"),
        (lambda one: one.documents[WELL_KNOWN_PATH].update({"jwks_uri": "file:///x"}), "no jwks_uri"),
        (lambda one: one.documents.update({"/keys": "none"}), "want a JWKS"),
        (lambda one: one.documents.update({"/keys": {"keys": ["x" * 2_000_000]}}), "more than"),
    ],
)
def test_an_issuer_that_answers_nonsense_lets_nobody_in(
    issuer: Issuer, change: Callable[[Issuer], object], match: str
) -> None:
    # covers SEC-23
    change(issuer)
    refused(OpenIdProvider.from_config(config_of(issuer.url)), token(issuer.url), match)


def test_an_issuer_that_drips_is_cut_off() -> None:
    # covers SEC-23
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            taken, _ = listener.accept()
            with taken:
                try:
                    while True:
                        taken.sendall(b"H")
                        ended.wait(0.02)
                except OSError:
                    return

        ended = threading.Event()
        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = config_of(url, openid_connect_timeout_ms=100, openid_read_timeout_ms=200)
        began_s = time.monotonic()
        refused(OpenIdProvider.from_config(config), token(url), "cannot fetch")
        assert time.monotonic() - began_s < 20
        thread.join()


def test_an_issuer_over_tls_is_trusted_by_its_authority(tmp_path: Path) -> None:
    # covers SEC-22
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    certificate, key, trusted = tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "ca.pem"
    made.cert_chain_pems[0].write_to_path(certificate)
    made.private_key_pem.write_to_path(key)
    authority.cert_pem.write_to_path(trusted)
    one = Issuer((certificate, key))
    try:
        publish(one, jwk("rsa", RSA))
        config = config_of(one.url, openid_issuer_trust_certs=str(trusted), openid_require_https=True)
        assert role(OpenIdProvider.from_config(config), token(one.url)) == "alice"
        distrusting = dataclasses.replace(config, openid_issuer_trust_certs="")
        refused(OpenIdProvider.from_config(distrusting), token(one.url), "CERTIFICATE_VERIFY_FAILED")
    finally:
        one.close()


def test_keys_may_come_from_a_file_that_is_read_again(tmp_path: Path) -> None:
    # covers SEC-23
    url, file, fresh = "https://offline.test/realm", tmp_path / "keys", tmp_path / "fresh"
    file.write_text(json.dumps({"keys": [jwk("rsa", RSA)]}))
    provider = OpenIdProvider.from_config(config_of(url, openid_issuer_key_files=(f"{url}={file}",)))
    assert role(provider, token(url)) == "alice"
    fresh.write_text(json.dumps({"keys": [jwk("new", OTHER_RSA)]}))
    fresh.replace(file)
    assert role(provider, token(url, OTHER_RSA, key_id="new")) == "alice"
    refused(provider, token(url), "does not have")
    fresh.write_text("broken")
    fresh.replace(file)
    assert role(provider, token(url, OTHER_RSA, key_id="new")) == "alice"


OF_A: dict[str, object] = {"openIDAllowedTokenIssuers": "https://a.test", "openIDAllowedAudiences": "a"}


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"openIDAllowedAudiences": "a"}, "openIDAllowedTokenIssuers is not set"),
        ({"openIDAllowedTokenIssuers": "https://a.test"}, "openIDAllowedAudiences is not set"),
        (OF_A | {"openIDAllowedTokenIssuers": "http://a.test"}, "want issuers with https"),
        ({"openIDFallbackDiscoveryMode": "KUBERNETES_DISCOVER_PUBLIC_KEYS"}, "want DISABLED"),
        (OF_A | {"openIDIssuerKeyFiles": "https://b.test=/x"}, "want ISSUER=FILE"),
        (OF_A | {"openIDIssuerKeyFiles": "https://a.test=/no/such/file"}, "cannot read /no/such/file"),
        (OF_A | {"openIDTokenIssuerTrustCertsFilePath": "/no/file"}, "openIDTokenIssuerTrustCertsFilePath=/no/file"),
    ],
)
def test_what_cannot_be_used_is_told_at_the_start(settings: dict[str, object], match: str) -> None:
    # covers SEC-22, SEC-23
    with pytest.raises(InvalidConfiguration, match=match):
        OpenIdProvider.from_config(load_config(None, settings))


def test_http_has_it_in_its_header() -> None:
    # covers AU-6
    assert NOBODYS.from_headers({"authorization": "bearer  abc "}, None) == b"abc"
    assert NOBODYS.from_headers({"authorization": "Basic abc"}, None) is None
    assert NOBODYS.from_headers({}, b"der") is None
