"""OpenID Connect: tokens of issuers that sign with keys of their own (SEC-22)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.server.configuration.reading import InvalidConfiguration

from .openid_keys import IssuerKeys, SigningKey
from .provider import Authenticated

if TYPE_CHECKING:
    from typing import Self

    from spark_pulsar.server.configuration.server_config import ServerConfig

    from .provider import Credentials

MAX_TOKEN_BYTES: Final = 16 * 1024
_CURVES: Final[Mapping[str, type[ec.EllipticCurve]]] = {
    "ES256": ec.SECP256R1,
    "ES384": ec.SECP384R1,
    "ES512": ec.SECP521R1,
}
_ALGORITHMS: Final = frozenset({"RS256", "RS384", "RS512", *_CURVES})
_REQUIRED: Final = ("exp", "iat", "nbf", "sub", "aud", "iss")
_LOG: Final = logging.getLogger("spark_pulsar.security")


class OpenIdProvider:
    """Provider of tokens of OpenID Connect issuers; clients show them as the method `token`."""

    method: Final = "token"
    is_slow: Final = True

    def __init__(self, config: ServerConfig, keys: IssuerKeys) -> None:
        self._keys = keys
        self._issuers = frozenset(config.openid_allowed_issuers)
        self._audiences = list(config.openid_allowed_audiences)
        self._role_claim = config.openid_role_claim
        self._leeway_seconds = config.openid_leeway_seconds

    @classmethod
    def from_config(cls, config: ServerConfig) -> Self:
        """Makes the provider of a broker's configuration. Raises InvalidConfiguration."""
        for key, values in (
            ("openIDAllowedTokenIssuers", config.openid_allowed_issuers),
            ("openIDAllowedAudiences", config.openid_allowed_audiences),
        ):
            if not values:
                raise InvalidConfiguration(f"{key} is not set; OpenID Connect needs it")
        for issuer in config.openid_allowed_issuers:
            scheme = issuer.partition("://")[0].lower()
            if scheme not in ("https", "http") or (scheme == "http" and config.openid_require_https):
                wanted = "want issuers with https://, or openIDRequireIssuersUseHttps=false"
                raise InvalidConfiguration(f"openIDAllowedTokenIssuers: {wanted}, got {issuer!r}")
            if scheme == "http":
                _LOG.warning("the broker fetches the keys of the token issuer %s without TLS", issuer)
        return cls(config, IssuerKeys(config))

    def authenticate(self, credentials: Credentials, now_ms: int) -> Authenticated:
        """Returns the role of a token, and its end. Unknown keys are requested from the issuer."""
        del now_ms  # PyJWT reads the wall clock itself
        if len(credentials.data) > MAX_TOKEN_BYTES:
            raise AuthenticationError(f"a token of more than {MAX_TOKEN_BYTES:,} bytes")
        try:
            claims = self._verified(credentials.data)
            expires_ms = int(claims["exp"]) * 1000
        except AuthenticationError:
            raise
        except jwt.PyJWTError as error:
            # Its type says enough; its text may repeat claims.
            raise AuthenticationError(f"the token does not hold: {type(error).__name__}") from None
        except Exception:  # noqa: BLE001 - whatever a stranger's bytes lead to
            raise AuthenticationError("the token cannot be read") from None
        return Authenticated(self._role(claims), expires_ms)

    def from_headers(self, headers: Mapping[str, str], certificate: bytes | None) -> bytes | None:
        """Returns the token of `Authorization: Bearer`."""
        del certificate
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return token.strip().encode() if scheme.lower() == "bearer" else None

    def _verified(self, token: bytes) -> dict[str, Any]:
        """Returns the claims of a token that holds: issuer first, then the key, the signature and the claims."""
        unverified = jwt.decode_complete(token, options={"verify_signature": False})
        header, issuer = unverified["header"], unverified["payload"].get("iss")
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in _ALGORITHMS:
            raise AuthenticationError("the token is not signed with RS256, RS384, RS512, ES256, ES384 or ES512")
        if not isinstance(issuer, str) or issuer not in self._issuers:
            raise AuthenticationError("the issuer of the token is none of openIDAllowedTokenIssuers")
        if not isinstance(key_id, str):
            raise AuthenticationError("the token names no key (kid)")
        key = self._keys.find(issuer, key_id)
        if not _fits(key, algorithm):
            raise AuthenticationError("the algorithm of the token is not that of its key")
        claims: dict[str, Any] = jwt.decode(
            token,
            key.public,
            algorithms=[algorithm],
            audience=self._audiences,
            issuer=issuer,
            leeway=self._leeway_seconds,
            options={"require": list(_REQUIRED)},
        )
        return claims

    def _role(self, claims: Mapping[str, Any]) -> str:
        value = claims.get(self._role_claim)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            value = value[0] if value else None
        if not isinstance(value, str) or not value:
            raise AuthenticationError(f"the token has no claim {self._role_claim} with a role")
        return value


def _fits(key: SigningKey, algorithm: str) -> bool:
    """Returns whether a key is for an algorithm: by the name that the issuer gives it, if any, and by its kind."""
    if key.algorithm is not None and key.algorithm != algorithm:
        return False
    curve = _CURVES.get(algorithm)
    if curve is None:
        return isinstance(key.public, RSAPublicKey)
    return isinstance(key.public, ec.EllipticCurvePublicKey) and isinstance(key.public.curve, curve)
