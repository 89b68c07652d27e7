"""Keys of OpenID Connect issuers: discovered, cached, and fetched again at a bounded rate (SEC-23). Tokens are judged
by `openid` (SEC-22)."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.server.configuration.reading import InvalidConfiguration

from .watched_file import WatchedFile, path_of_url

if TYPE_CHECKING:
    from spark_pulsar.server.configuration.server_config import ServerConfig

WELL_KNOWN_PATH: Final = "/.well-known/openid-configuration"
MAX_ANSWER_BYTES: Final = 1024 * 1024
MAX_KEYS: Final = 1_000
SLOW_S: Final = 2.0
"""Time of a fetch in which others wait for it. They have few threads, which other providers need, too."""
_SOON_S: Final = 0.05
RETRY_S: Final = 5.0
"""Time after a fetch in vain in which the issuer gets no further request."""
_LOG: Final = logging.getLogger("spark_pulsar.security")


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A public key of an issuer."""

    public: RSAPublicKey | EllipticCurvePublicKey
    algorithm: str | None
    """Algorithm that the issuer names for it."""


Keys = Mapping[str, SigningKey]
"""Keys for signatures, by key id."""


class IssuerFailed(Exception):
    """An issuer, or its file, gives no keys; the text says why."""


class IssuerKeys:
    """Keys of all allowed issuers. Any thread may read them."""

    def __init__(self, config: ServerConfig, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises InvalidConfiguration."""
        files = _files(config)
        context = _tls(config.openid_issuer_trust_certs)
        self._issuers: dict[str, _Issuer] = {}
        for issuer in config.openid_allowed_issuers:
            if issuer in files:
                source: _Source = _FromFile(files[issuer])
            else:
                source = _FromNetwork(issuer, config, context)
            self._issuers[issuer] = _Issuer(source, _Intervals.of(config), clock)

    def find(self, issuer: str, key_id: str) -> SigningKey:
        """Returns a key of an allowed issuer. Raises AuthenticationError."""
        return self._issuers[issuer].find(key_id)


@dataclass(frozen=True, slots=True)
class _Intervals:
    refresh_s: float
    expiration_s: float
    unknown_key_s: float

    @classmethod
    def of(cls, config: ServerConfig) -> _Intervals:
        return cls(
            config.openid_cache_refresh_seconds,
            config.openid_cache_expiration_seconds,
            config.openid_unknown_key_seconds,
        )


class _Issuer:
    """Keys of one issuer, as old as the cache allows."""

    def __init__(self, source: _Source, intervals: _Intervals, clock: Callable[[], float]) -> None:
        self._source = source
        self._intervals = intervals
        self._clock = clock
        self._fetching = threading.Lock()
        self._keys: Keys | None = None
        self._fetched_s = self._failed_s = -float("inf")
        self._began_s = clock()
        self._failure = ""

    def find(self, key_id: str) -> SigningKey:
        """Returns the key with this id, from the issuer if need be. Raises AuthenticationError."""
        age_s = self._clock() - self._fetched_s
        keys = self._keys
        if keys is None or age_s >= self._intervals.expiration_s:
            keys = self._fetch_once(self._fetched_s)
        elif self._source.has_changed():
            keys = self._refresh(keys)
        elif age_s >= self._intervals.refresh_s and self._may_try():
            # The old keys serve meanwhile, and on, should it be in vain.
            threading.Thread(target=self._refresh, args=(keys,), name="openid-keys", daemon=True).start()
        if key_id not in keys and self._clock() - self._fetched_s >= self._intervals.unknown_key_s:
            keys = self._fetch_once(self._fetched_s)
        if key_id not in keys:
            raise AuthenticationError("the token names a key that its issuer does not have")
        return keys[key_id]

    def _may_try(self) -> bool:
        return not self._fetching.locked() and self._clock() - self._failed_s >= RETRY_S

    def _refresh(self, known: Keys) -> Keys:
        """Fetches the keys unless another thread does; returns those that are known when it does so in vain."""
        if not self._fetching.acquire(blocking=False):
            return known
        try:
            return self._fetch()
        except AuthenticationError:
            return known
        finally:
            self._fetching.release()

    def _fetch_once(self, known_s: float) -> Keys:
        """Fetches the keys, unless another thread has done so since the time of those that are known."""
        is_ours = self._fetching.acquire(timeout=_SOON_S)  # by then the fetch under way has noted its begin
        if not is_ours:
            is_ours = self._fetching.acquire(timeout=max(0.0, self._began_s + SLOW_S - self._clock()))
        if not is_ours:
            raise AuthenticationError("the issuer of the token takes long to give its keys")
        try:
            if self._keys is not None and self._fetched_s > known_s:
                return self._keys
            if self._clock() - self._failed_s < RETRY_S:
                raise AuthenticationError(self._failure)
            return self._fetch()
        finally:
            self._fetching.release()

    def _fetch(self) -> Keys:
        self._began_s = self._clock()
        try:
            self._keys = keys = self._source.fetch()
        except IssuerFailed as error:
            self._failed_s, self._failure = self._clock(), f"no keys of the token's issuer: {error}"
            _LOG.error("no keys of a token issuer: %s", error)
            raise AuthenticationError(self._failure) from None
        self._fetched_s = self._clock()
        return keys


class _Source:
    """Origin of an issuer's keys."""

    def fetch(self) -> Keys:
        """Returns the keys of now. Raises IssuerFailed."""
        raise NotImplementedError

    def has_changed(self) -> bool:
        """Returns whether there are other keys for certain."""
        return False


class _FromFile(_Source):
    """Keys of a file."""

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile("openIDIssuerKeyFiles", path, MAX_ANSWER_BYTES)
        try:
            self.fetch()
        except IssuerFailed as error:
            raise InvalidConfiguration(str(error)) from None

    def fetch(self) -> Keys:
        try:
            return parse_keys(self._file.read())
        except InvalidConfiguration as error:
            raise IssuerFailed(str(error)) from None
        except ValueError as error:
            raise IssuerFailed(f"openIDIssuerKeyFiles: {self._file.path}: {error}") from None

    def has_changed(self) -> bool:
        return self._file.has_changed()


class _FromNetwork(_Source):
    """Keys that the issuer's discovery document names."""

    def __init__(self, issuer: str, config: ServerConfig, context: ssl.SSLContext) -> None:
        self._issuer = issuer
        self._connect_s = config.openid_connect_timeout_ms / 1000
        self._read_s = config.openid_read_timeout_ms / 1000
        self._context = context

    def fetch(self) -> Keys:
        document = self._get(self._issuer.removesuffix("/") + WELL_KNOWN_PATH)
        try:
            metadata = json.loads(document)
            named, url = metadata["issuer"], metadata["jwks_uri"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise IssuerFailed(f"the discovery document of {self._issuer} lacks issuer or jwks_uri") from None
        if named != self._issuer:
            raise IssuerFailed(f"the discovery document of {self._issuer} is of another issuer")
        kinds = ("https",) if self._issuer.lower().startswith("https:") else ("https", "http")
        if not isinstance(url, str) or urlsplit(url).scheme not in kinds:
            raise IssuerFailed(f"the discovery document of {self._issuer} names no jwks_uri with {kinds[0]}://")
        try:
            return parse_keys(self._get(url))
        except ValueError as error:
            raise IssuerFailed(f"{url}: {error}") from None

    def _get(self, url: str) -> bytes:
        """Fetches a document of bounded size in bounded time; redirects are not followed."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
            connection = (
                http.client.HTTPSConnection(host, port, timeout=self._connect_s, context=self._context)
                if parts.scheme == "https"
                else http.client.HTTPConnection(host, port, timeout=self._connect_s)
            )
            with _Bounded(connection, self._connect_s + self._read_s):
                connection.connect()
                connection.sock.settimeout(self._read_s)
                path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                connection.request("GET", path, headers={"Accept": "application/json"})
                with connection.getresponse() as answer:
                    body = answer.read(MAX_ANSWER_BYTES + 1)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise IssuerFailed(f"cannot fetch {url}: {error}") from None
        if answer.status != 200:
            raise IssuerFailed(f"{url} answers with status {answer.status}")
        if len(body) > MAX_ANSWER_BYTES:
            raise IssuerFailed(f"{url} answers with more than {MAX_ANSWER_BYTES:,} bytes")
        return body


class _Bounded:
    """A connection that is closed, after a time at the latest: time-outs of sockets count from byte to byte."""

    def __init__(self, connection: http.client.HTTPConnection, after_s: float) -> None:
        self._connection = connection
        self._timer = threading.Timer(after_s, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._connection.close()

    def _cut(self) -> None:
        sock = self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def parse_keys(data: bytes) -> dict[str, SigningKey]:
    """Reads a JWKS: its RSA and elliptic keys for signatures that have an id. Raises ValueError."""
    try:
        given = json.loads(data)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        given = None
    if not isinstance(given, list):
        raise ValueError("want a JWKS, a JSON object with `keys`")
    return {jwk["kid"]: key for jwk in given[:MAX_KEYS] if (key := _key(jwk)) is not None}


def _key(given: Any) -> SigningKey | None:
    """Returns a key for signatures; None for keys of other kinds, which an issuer may have beside them."""
    if not isinstance(given, dict) or not isinstance(given.get("kid"), str) or given.get("use", "sig") != "sig":
        return None
    try:
        made = jwt.PyJWK(given).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if not isinstance(made, RSAPublicKey | EllipticCurvePublicKey):
        return None
    return SigningKey(made, given.get("alg"))


def _files(config: ServerConfig) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for entry in config.openid_issuer_key_files:
        issuer, separator, file = entry.partition("=")
        if not separator or issuer not in config.openid_allowed_issuers or not file:
            wanted = "want ISSUER=FILE with an issuer of openIDAllowedTokenIssuers"
            raise InvalidConfiguration(f"openIDIssuerKeyFiles: {wanted}, got {entry!r}")
        files[issuer] = path_of_url(file) if file.startswith("file:") else Path(file)
    return files


def _tls(trust_certs: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=trust_certs or None)
    except OSError as error:
        text = f"openIDTokenIssuerTrustCertsFilePath={trust_certs}: {error.strerror or error}"
        raise InvalidConfiguration(text) from None
