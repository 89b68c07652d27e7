"""Tokens: keys from everywhere, and those that must not come in."""

import base64
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.server.configuration.reading import InvalidConfiguration, load_config
from spark_pulsar.server.security.provider import Authenticated, Credentials
from spark_pulsar.server.security.token import TokenProvider

NOW_S = 1_795_000_000
SECRET = bytes(range(64))
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def _public(key: Any, encoding: Encoding = Encoding.DER) -> bytes:
    made: bytes = key.public_key().public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)
    return made


def _data(key: bytes) -> str:
    return f"data:;base64,{base64.b64encode(key).decode()}"


def _provider(**settings: str) -> TokenProvider:
    return TokenProvider.from_config(load_config(None, settings))


def _secret(**settings: str) -> TokenProvider:
    return _provider(tokenSecretKey=_data(SECRET), **settings)


def _token(claims: Mapping[str, Any], key: Any = SECRET, algorithm: str = "HS256", **header: Any) -> bytes:
    return jwt.encode(dict(claims), key, algorithm=algorithm, headers=header or None).encode()


def _check(provider: TokenProvider, token: bytes, now_ms: int = NOW_S * 1000) -> Authenticated:
    return provider.authenticate(Credentials("token", token), now_ms)


def _refused(provider: TokenProvider, token: bytes, now_ms: int = NOW_S * 1000) -> str:
    with pytest.raises(AuthenticationError) as caught:
        _check(provider, token, now_ms)
    text = str(caught.value) + repr(caught.value.__cause__) + repr(caught.value.__context__)
    assert len(token) < 50 or token.decode(errors="replace") not in text  # covers AU-12
    return str(caught.value)


# Keys


@pytest.mark.parametrize("form", ["path", "file", "data", "base64"])
def test_keys_come_from_where_apache_pulsar_takes_them(form: str, tmp_path: Path) -> None:
    # covers AU-2
    for name, key, signed in (
        ("tokenSecretKey", SECRET, _token({"sub": "u"})),
        ("tokenPublicKey", _public(RSA_KEY), _token({"sub": "u"}, RSA_KEY, "RS256")),
    ):
        path = tmp_path / f"{name} of ours"
        path.write_bytes(key)
        text = base64.b64encode(key).decode()
        given = {"path": str(path), "file": path.as_uri(), "data": f"data:;base64,{text}", "base64": text}[form]
        assert _check(_provider(**{name: given}), signed) == Authenticated("u")


def test_text_of_a_data_url_is_a_key() -> None:
    provider = _provider(tokenSecretKey="data:,0123456789abcdef0123456789abcde%41")
    assert _check(provider, _token({"sub": "u"}, b"0123456789abcdef0123456789abcdeA")).role == "u"


def test_algorithms_are_those_of_the_key() -> None:
    # covers AU-2, SEC-4
    signed = {
        **{name: _token({"sub": "u"}, SECRET, name) for name in ("HS256", "HS384", "HS512")},
        **{
            f"{kind}{bits}": _token({"sub": "u"}, RSA_KEY, f"{kind}{bits}")
            for kind in ("RS", "PS")
            for bits in (256, 384, 512)
        },
        "ES256": _token({"sub": "u"}, EC_KEY, "ES256"),
        "none": _token({"sub": "u"}, None, "none"),
    }
    pem = _data(_public(EC_KEY, Encoding.PEM))
    taken = {
        "HS": _secret(),
        "HS256": _provider(tokenSecretKey=_data(SECRET[:32])),
        "RS": _provider(tokenPublicKey=_data(_public(RSA_KEY)), tokenPublicAlg="RS512"),
        "ES": _provider(tokenPublicKey=pem, tokenPublicAlg="ES256"),
    }
    for kind, provider in taken.items():
        for name, token in signed.items():
            if name == "HS256" or kind != "HS256":
                fits = name.startswith(kind) or (kind == "RS" and name.startswith("PS"))
                if fits and kind != "HS256":
                    assert _check(provider, token).role == "u", (kind, name)
                else:
                    _refused(provider, token)


def test_public_key_is_no_secret_key() -> None:
    # covers AU-2, SEC-4
    for encoding in (Encoding.PEM, Encoding.DER):
        public = _public(RSA_KEY, encoding)
        forged = _forged({"alg": "HS256"}, {"sub": "admin"}, public)
        _refused(_provider(tokenPublicKey=_data(public)), forged)
        with pytest.raises(InvalidConfiguration, match="tokenSecretKey holds a key of a pair"):
            _provider(tokenSecretKey=_data(public))


def _forged(header: Any, claims: Any, key: bytes) -> bytes:
    """A token that PyJWT would refuse to make."""
    import hashlib
    import hmac

    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in (header, claims)]
    body = b".".join(parts)
    return body + b"." + base64.urlsafe_b64encode(hmac.digest(key, body, hashlib.sha256)).rstrip(b"=")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "want tokenSecretKey or tokenPublicKey"),
        ({"tokenSecretKey": "s3cret!"}, "tokenSecretKey: want the path"),
        ({"tokenSecretKey": "data:s3cret"}, "tokenSecretKey: want data:"),
        ({"tokenSecretKey": "file:///s3cret/nowhere"}, "tokenSecretKey: cannot read /s3cret/nowhere"),
        ({"tokenSecretKey": _data(b"s3cret" * 5)}, "tokenSecretKey has 240 bits: want 256 or more"),
        ({"tokenPublicKey": _data(b"s3cret" * 50)}, "tokenPublicKey: want a public key"),
        ({"tokenPublicKey": _data(_public(EC_KEY))}, "tokenPublicAlg=RS256: want ES256"),
        ({"tokenPublicKey": _data(_public(RSA_KEY)), "tokenPublicAlg": "ES256"}, "tokenPublicAlg=ES256: want RS256"),
        ({"tokenPublicKey": _data(_public(ed25519.Ed25519PrivateKey.generate()))}, "tokenPublicKey: want a public key"),
        ({"tokenSecretKey": _data(SECRET), "tokenAudienceClaim": "aud"}, "tokenAudienceClaim=aud is set"),
    ],
)
def test_key_that_cannot_be_used_is_named_and_not_shown(settings: Mapping[str, str], said: str) -> None:
    # covers AU-12, SEC-1
    with pytest.raises(InvalidConfiguration) as caught:
        _provider(**settings)
    assert str(caught.value).startswith(said)
    assert "s3cret" not in str(caught.value).replace("/s3cret/nowhere", "")


# Claims


def test_end_and_beginning_are_kept_by_the_broker_s_clock() -> None:
    # covers AU-2
    provider, skewed = _secret(), _secret(tokenAllowedClockSkewSeconds="10")
    token = _token({"sub": "u", "exp": NOW_S, "nbf": NOW_S - 5.5})
    assert _check(provider, token, NOW_S * 1000 - 1) == Authenticated("u", NOW_S * 1000)
    assert "expired" in _refused(provider, token)
    assert _check(skewed, token, NOW_S * 1000 + 9_999).role == "u"
    assert "expired" in _refused(skewed, token, NOW_S * 1000 + 10_000)
    assert "not valid yet" in _refused(provider, token, NOW_S * 1000 - 5_501)
    assert _check(skewed, token, NOW_S * 1000 - 15_500).role == "u"
    assert _check(provider, _token({"sub": "u", "iat": NOW_S + 100})).role == "u"  # as Apache Pulsar


@pytest.mark.parametrize("value", ["1", True, [], {}, float("nan"), float("inf"), float("-inf")])
def test_end_that_is_no_time_is_refused(value: Any) -> None:
    # covers AU-2
    assert "exp" in _refused(_secret(), _forged({"alg": "HS256"}, {"sub": "u", "exp": value}, SECRET))


@pytest.mark.parametrize("value", [1e308, -1e308, 10**400, -1], ids=["large", "small", "huge", "past"])
def test_end_beyond_all_times_is_no_failure(value: Any) -> None:
    token = _forged({"alg": "HS256"}, {"sub": "u", "exp": value}, SECRET)
    if value > 0:
        assert _check(_secret(), token).role == "u"
    else:
        _refused(_secret(), token)


def test_claim_of_the_role() -> None:
    # covers AU-2
    provider = _secret(tokenAuthClaim="roles")
    assert _check(provider, _token({"sub": "v", "roles": "u"})).role == "u"
    assert _check(provider, _token({"roles": ["u", "v"]})).role == "u"
    for claims in ({"sub": "u"}, {"roles": ""}, {"roles": []}, {"roles": [1]}, {"roles": 5}, {"roles": None}):
        assert "roles" in _refused(provider, _token(claims))


def test_audience() -> None:
    # covers AU-2
    provider = _secret(tokenAudienceClaim="aud", tokenAudience="ours")
    for audience in ("ours", ["theirs", "ours"]):
        assert _check(provider, _token({"sub": "u", "aud": audience})).role == "u"
    for audience in ("theirs", ["theirs"], [], 5, [["ours"]], {"ours": 1}):
        _refused(provider, _forged({"alg": "HS256"}, {"sub": "u", "aud": audience}, SECRET))
    _refused(provider, _token({"sub": "u"}))
    assert _check(_secret(), _token({"sub": "u", "aud": "theirs"})).role == "u"


# Hostile tokens


def test_hostile_tokens_are_refused() -> None:
    # covers AU-2, AU-12
    good = _token({"sub": "u"})
    head, body, signature = good.split(b".")
    deep = base64.urlsafe_b64encode(b"[" * 11_000).rstrip(b"=")
    hostile = [
        b"",
        b"..",
        b"." * 16_000,
        good[:-2],
        good + b"x",
        b"Bearer " + good,
        head + b"." + body + b".",
        head + b"." + body,
        deep + b"." + body + b"." + signature,
        head + b"." + deep + b"." + signature,
        b"\xff\xfe" * 100,
        "\u0661.\u0662.\u0663".encode(),
        _forged({"alg": "none"}, {"sub": "u"}, SECRET),
        _forged({"alg": ["HS256"]}, {"sub": "u"}, SECRET),
        _forged({"alg": "hs256"}, {"sub": "u"}, SECRET),
        _forged({}, {"sub": "u"}, SECRET),
        _forged([], {"sub": "u"}, SECRET),
        _forged({"alg": "HS256"}, ["sub"], SECRET),
        _forged({"alg": "HS256"}, "sub", SECRET),
        _forged({"alg": "HS256", "crit": ["x"], "x": 1}, {"sub": "u"}, SECRET),
        _forged({"alg": "HS256", "b64": False, "crit": ["b64"]}, {"sub": "u"}, SECRET),
        _forged({"alg": "HS256"}, {"sub": "u"}, SECRET[:-1]),
    ]
    for token in hostile:
        _refused(_secret(), token)


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_no_bytes_are_a_token(data: bytes) -> None:
    # covers AU-2
    _refused(_secret(), data)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from(["alg", "typ", "kid", "crit", "b64", "jwk"]), _json),
    st.dictionaries(st.sampled_from(["sub", "exp", "nbf", "iat", "aud", "iss", "jti"]), _json) | _json,
)
def test_signed_token_of_any_form_has_a_role_or_is_refused(header: Any, claims: Any) -> None:
    # covers AU-2
    token = _forged({"alg": "HS256", **header}, claims, SECRET)
    with contextlib.suppress(AuthenticationError):
        assert _check(_secret(), token).role


def test_bearer_is_read_from_headers() -> None:
    # covers AU-6
    read = _secret().from_headers
    assert read({"authorization": "Bearer a.b.c"}, None) == b"a.b.c"
    assert read({"authorization": "bearer  a.b.c "}, None) == b"a.b.c"
    assert read({"authorization": "Bearer"}, None) == b""
    assert read({"authorization": "Basic a.b.c"}, None) is None
    assert read({}, b"certificate") is None
