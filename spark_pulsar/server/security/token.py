"""Authentication by JSON web tokens, signed with a secret key or by the owner of a public key (AU-2, SEC-81).

The key decides which algorithms a token may have, never the token: HMAC for a secret key of that length, RSA or the
curve of the key for a public one, `none` for neither.
"""

from __future__ import annotations

import base64
import binascii
import logging
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_der_public_key, load_pem_public_key

from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.server.configuration.reading import InvalidConfiguration

from .provider import Authenticated
from .watched_file import path_of_url

if TYPE_CHECKING:
    from typing import Self

    from spark_pulsar.server.configuration.server_config import ServerConfig

    from .provider import Credentials

MAX_KEY_BYTES: Final = 64 * 1024
"""Largest file of a key."""
_MIN_RSA_BITS: Final = 2048
_SECRET_BYTES: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Least length of a secret key for each algorithm (RFC 7518), which Apache Pulsar requires, too."""
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
"""Algorithm of each curve."""
_DATA_URL: Final = re.compile(r"data:[^,]*?(?P<base64>;base64)?,(?P<data>.*)", re.DOTALL)
_SIGNATURE_ALONE: Final[Any] = {
    "verify_signature": True,
    **dict.fromkeys(
        ("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss", "verify_sub", "verify_jti"), False
    ),
}
"""Options of PyJWT: the claims are checked here, by the broker's clock."""
_LAST_S: Final = 1 << 50
"""Last second that counts, far enough for any token."""
_LOG: Final = logging.getLogger("spark_pulsar.security")


class TokenProvider:
    """Provider of the method `token`: a claim of the token is the role."""

    method: Final = "token"
    is_slow: Final = False

    def __init__(
        self,
        key: Any,
        algorithms: tuple[str, ...],
        *,
        role_claim: str = "sub",
        audience_claim: str = "",
        audience: str = "",
        clock_skew_ms: int = 0,
    ) -> None:
        """`key`: secret bytes or a public key of `cryptography`; `audience_claim`: empty when audiences do not
        count."""
        self._key = key
        self._algorithms = list(algorithms)
        self._role_claim = role_claim
        self._audience_claim = audience_claim
        self._audience = audience
        self._clock_skew_ms = clock_skew_ms

    @classmethod
    def from_config(cls, config: ServerConfig) -> Self:
        """Makes the provider of a broker's configuration. Raises InvalidConfiguration, which quotes no key."""
        if config.token_audience_claim and not config.token_audience:
            text = "is set and tokenAudience is not: want the audience that tokens of this broker name"
            raise InvalidConfiguration(f"tokenAudienceClaim={config.token_audience_claim} {text}")
        if config.token_secret_key:
            if config.token_public_key:
                _LOG.warning(
                    "tokenSecretKey and tokenPublicKey are set: the secret key alone counts, as in Apache Pulsar"
                )
            secret = read_key(config.token_secret_key, "tokenSecretKey")
            key, algorithms = secret, _algorithms_of_secret(secret)
        elif config.token_public_key:
            encoded = read_key(config.token_public_key, "tokenPublicKey")
            key, algorithms = _public_key(encoded, config.token_public_algorithm)
        else:
            raise InvalidConfiguration("want tokenSecretKey or tokenPublicKey, which tokens are checked with")
        return cls(
            key,
            algorithms,
            role_claim=config.token_auth_claim,
            audience_claim=config.token_audience_claim,
            audience=config.token_audience,
            clock_skew_ms=config.token_clock_skew_ms,
        )

    def authenticate(self, credentials: Credentials, now_ms: int) -> Authenticated:
        """Returns the role that a valid token names, until its end (SEC-3)."""
        claims = self._claims(credentials.data)
        expires_ms = _time_ms(claims, "exp")
        if expires_ms is not None and now_ms - self._clock_skew_ms >= expires_ms:
            raise AuthenticationError("the token has expired")
        not_before_ms = _time_ms(claims, "nbf")
        if not_before_ms is not None and now_ms + self._clock_skew_ms < not_before_ms:
            raise AuthenticationError("the token is not valid yet")
        if self._audience_claim:
            self._check_audience(claims.get(self._audience_claim))
        role = claims.get(self._role_claim)
        if isinstance(role, list) and role:
            role = role[0]  # as in Apache Pulsar
        if not isinstance(role, str) or not role:
            raise AuthenticationError(f"the token names no role in its claim {self._role_claim}")
        return Authenticated(role, expires_ms)

    def from_headers(self, headers: Mapping[str, str], certificate: bytes | None) -> bytes | None:
        """Returns the token of `Authorization: Bearer`."""
        del certificate
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return token.strip().encode("latin-1", "replace") if scheme.lower() == "bearer" else None

    def _claims(self, token: bytes) -> Mapping[str, Any]:
        """Returns the claims of a token with a good signature. No text of PyJWT goes on: it may quote the token."""
        try:
            claims: dict[str, Any] = jwt.decode(token, self._key, self._algorithms, options=_SIGNATURE_ALONE)
        except jwt.InvalidAlgorithmError:
            reason = f"the token's algorithm is none of {', '.join(self._algorithms)}"
        except jwt.InvalidSignatureError:
            reason = "the token's signature is not that of the broker's key"
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as error:
            reason = f"no token that can be read ({type(error).__name__})"
        else:
            return claims
        raise AuthenticationError(reason)

    def _check_audience(self, named: object) -> None:
        audiences = named if isinstance(named, list) else [named]
        if self._audience not in [audience for audience in audiences if isinstance(audience, str)]:
            raise AuthenticationError(f"the token is not for the audience {self._audience}")


def read_key(text: str, name: str) -> bytes:
    """Reads the key that a setting gives: a `file:` or `data:` URL, the path of a file, or the key in base64 (SEC-4).
    Raises InvalidConfiguration, which does not quote the setting: it may be the key."""
    if text.startswith("data:"):
        match = _DATA_URL.fullmatch(text)
        if match is None:
            raise InvalidConfiguration(f"{name}: want data:;base64,KEY")
        return _decoded(match["data"], name) if match["base64"] else unquote_to_bytes(match["data"])
    if text.startswith("file:"):
        return _content(path_of_url(text), name)
    path = Path(text)
    return _content(path, name) if _is_there(path) else _decoded(text, name)


def _is_there(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # longer than names are: the key itself
        return False


def _content(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY_BYTES + 1)
    except OSError as error:
        raise InvalidConfiguration(f"{name}: cannot read {path}: {error.strerror}") from None
    if not 0 < len(data) <= MAX_KEY_BYTES:
        raise InvalidConfiguration(f"{name}: {path} has {len(data)} bytes, want 1 to {MAX_KEY_BYTES}")
    return data


def _decoded(text: str, name: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not data:
        wanted = "want the path of a key, file:///path, data:;base64,KEY or KEY in base64"
        raise InvalidConfiguration(f"{name}: {wanted}; there is no such file, and it is no base64")
    return data


def _algorithms_of_secret(secret: bytes) -> tuple[str, ...]:
    if _loaded(secret) is not None or b"-----BEGIN " in secret:
        raise InvalidConfiguration("tokenSecretKey holds a key of a pair: want a secret one, or set tokenPublicKey")
    fitting = tuple(name for name, least in _SECRET_BYTES.items() if len(secret) >= least)
    if not fitting:
        raise InvalidConfiguration(f"tokenSecretKey has {len(secret) * 8} bits: want 256 or more")
    return fitting


def _public_key(encoded: bytes, algorithm: str) -> tuple[Any, tuple[str, ...]]:
    """Returns a public key and the algorithms of its kind, of which `tokenPublicAlg` must be one (SEC-4)."""
    key = _loaded(encoded)
    if isinstance(key, RSAPublicKey):
        if key.key_size < _MIN_RSA_BITS:
            raise InvalidConfiguration(f"tokenPublicKey has {key.key_size} bits: want {_MIN_RSA_BITS} or more")
        algorithms: tuple[str, ...] = _RSA
    elif isinstance(key, EllipticCurvePublicKey) and key.curve.name in _CURVES:
        algorithms = (_CURVES[key.curve.name],)
    else:
        kinds = "RSA or of a curve of ES256, ES384 or ES512"
        raise InvalidConfiguration(f"tokenPublicKey: want a public key in DER or PEM form, {kinds}")
    if algorithm not in algorithms:
        wanted = " or ".join(algorithms)
        raise InvalidConfiguration(f"tokenPublicAlg={algorithm}: want {wanted} for the kind of tokenPublicKey")
    return key, algorithms


def _loaded(encoded: bytes) -> Any:
    """Loads a public key in PEM or DER form, None when it is none."""
    load = load_pem_public_key if b"-----BEGIN " in encoded else load_der_public_key
    try:
        return load(encoded)
    except Exception:  # noqa: BLE001  # of several kinds, and their texts may quote the key
        return None


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    """Returns the time of a claim in milliseconds, None when there is none."""
    value = claims.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or (isinstance(value, float) and not math.isfinite(value)):
        raise AuthenticationError(f"the token's claim {name} is no time")
    return int(max(0, min(value, _LAST_S)) * 1000)
