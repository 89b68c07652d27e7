"""OAuth 2.0 authentication (AuthenticationOAuth2): the client credentials flow. A broker sees a plain token."""

from __future__ import annotations

import base64
import binascii
import json
import re
import ssl
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from spark_pulsar.client.authentication.sources import is_elsewhere, parse_params, read_source
from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import ConnectFailed, CredentialsError
from spark_pulsar.client.secret import Secret
from spark_pulsar.model.errors import PulsarError

WELL_KNOWN_PATH: Final = "/.well-known/openid-configuration"
CLIENT_CREDENTIALS: Final = "client_credentials"
_MAX_ANSWER_BYTES: Final = 1024 * 1024
_LONGEST_REQUEST_MS: Final = 10_000
_USED_SHARE: Final = 0.9
_DATA_URL: Final = "data:application/json;base64,"
_KNOWN: Final = frozenset({"type", "issuerUrl", "privateKey", "audience", "scope", "trustCertsFilePath"})
_NAME: Final = re.compile(r"[a-z]{2,16}(?:[A-Z][a-z]{1,12}){0,3}")
"""Pattern of a parameter's name. Any other text may be a secret that was put in the wrong place."""


@dataclass(frozen=True, slots=True)
class _Flow:
    """The parameters of the plugin, checked."""

    issuer_url: str
    private_key: Secret
    audience: str
    scope: str
    trust_certs_file_path: str


@dataclass(frozen=True, slots=True)
class _Issued:
    """Access token, and the time at which the client requests the next one: before it expires."""

    token: bytes
    renew_at_ms: int | None


class OAuth2Credentials:
    """An access token of an issuer, shared by all connections of a client and renewed before it expires. See
    `Credentials`."""

    method: Final = "token"

    def __init__(self, params: Secret) -> None:
        """`params`: a JSON object with `issuerUrl`, `privateKey` (a `file:` URL, `env:NAME`, or a `data:` URL in
        base64, of JSON with `client_id` and `client_secret`), and `audience`, `scope`, `trustCertsFilePath` if needed;
        or `file:///path` or `env:NAME` of that object. Raises ValueError."""
        if not is_elsewhere(params):
            _flow(params)
        self._params = params
        self._lock = threading.Lock()
        self._issued: _Issued | None = None

    def data(self, deadline: Deadline, refused: bytes | None = None) -> bytes | None:
        """See `Credentials`."""
        if not self._lock.acquire(timeout=deadline.left_ms() / 1000):
            raise deadline.error()
        try:
            known = self._issued
            if known is None or known.token == refused or _is_over(known.renew_at_ms):
                try:
                    known = self._issued = self._exchange(deadline)
                except ValueError as error:
                    raise CredentialsError(f"no OAuth 2.0 token: {error}") from None
            return known.token
        finally:
            self._lock.release()

    def _exchange(self, deadline: Deadline) -> _Issued:
        flow = _flow(read_source(self._params))
        client_id, client_secret = _client(flow.private_key)
        issuer = _Issuer(flow, client_secret, deadline)
        fields = {"grant_type": CLIENT_CREDENTIALS, "client_id": client_id, "client_secret": client_secret.reveal()}
        fields |= {"audience": flow.audience} if flow.audience else {}
        fields |= {"scope": flow.scope} if flow.scope else {}
        requested_ms = monotonic_ms()
        answer = issuer.request_json(issuer.token_endpoint(), fields)
        token, seconds = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(token, str) or not token:
            raise CredentialsError(f"the answer of the issuer {flow.issuer_url} holds no access_token")
        lives_ms = _lifetime_ms(seconds)
        return _Issued(token.encode(), None if lives_ms is None else requested_ms + int(lives_ms * _USED_SHARE))


class _Issuer:
    """Issuer of access tokens, reached over HTTP."""

    def __init__(self, flow: _Flow, client_secret: Secret, deadline: Deadline) -> None:
        from urllib import request

        self._url = flow.issuer_url
        self._secret = client_secret
        self._deadline = deadline
        self._opener = request.OpenerDirector()
        # Redirects are not followed: they would carry the client's secret elsewhere.
        try:
            context = ssl.create_default_context(cafile=flow.trust_certs_file_path or None)
        except OSError as error:
            raise CredentialsError(f"trustCertsFilePath {flow.trust_certs_file_path!r}: {error}") from None
        for handler in (
            request.ProxyHandler(),
            request.HTTPHandler(),
            request.HTTPSHandler(context=context),
            request.HTTPDefaultErrorHandler(),
            request.HTTPErrorProcessor(),
            request.UnknownHandler(),
        ):
            self._opener.add_handler(handler)

    def token_endpoint(self) -> str:
        """Returns the URL that gives tokens, as the issuer's metadata say."""
        endpoint = self.request_json(self._url.rstrip("/") + WELL_KNOWN_PATH).get("token_endpoint")
        kinds = ("https",) if self._url.startswith("https://") else ("https", "http")
        if not isinstance(endpoint, str) or urlsplit(endpoint).scheme not in kinds:
            raise CredentialsError(f"the metadata of the issuer {self._url} name no token_endpoint ({kinds[0]}://)")
        return endpoint

    def request_json(self, url: str, fields: dict[str, str] | None = None) -> dict[str, Any]:
        """Returns the JSON object that the issuer answers to a GET, or to a POST with `fields`."""
        if self._deadline.passed:
            raise self._deadline.error()
        data = urlencode(fields).encode() if fields else None
        timeout_ms = min(_LONGEST_REQUEST_MS, max(1, self._deadline.left_ms()))
        status, body = self._fetch_in_time(url, data, timeout_ms)
        if status != 200:
            raise self._refused(url, status, body)
        try:
            loaded = json.loads(body)
        except (ValueError, RecursionError):
            loaded = None
        if not isinstance(loaded, dict):
            raise CredentialsError(f"the OAuth 2.0 issuer answers at {url} with something else than a JSON object")
        return loaded

    def _fetch_in_time(self, url: str, data: bytes | None, timeout_ms: int) -> tuple[int, bytes]:
        """Fetches in a thread of its own: the time-out of a socket counts from byte to byte, and names are looked up
        without any."""
        answer: Future[tuple[int, bytes]] = Future()

        def run() -> None:
            try:
                answer.set_result(self._fetch(url, data, timeout_ms))
            except (PulsarError, ValueError) as error:
                answer.set_exception(error)

        threading.Thread(target=run, name="pulsar-oauth2", daemon=True).start()
        try:
            return answer.result(timeout_ms / 1000)
        except TimeoutError:
            raise ConnectFailed(f"the OAuth 2.0 issuer gave no whole answer at {url} in {timeout_ms} ms") from None

    def _fetch(self, url: str, data: bytes | None, timeout_ms: int) -> tuple[int, bytes]:
        """Returns the status of the answer and its body."""
        from http.client import HTTPException
        from urllib import error, request

        try:
            sent = request.Request(url, data=data, headers={"Accept": "application/json"})
            try:
                answer = self._opener.open(sent, timeout=timeout_ms / 1000)
            except error.HTTPError as refusal:
                with refusal:
                    return refusal.code, refusal.read(_MAX_ANSWER_BYTES)
            with answer:
                return 200, answer.read(_MAX_ANSWER_BYTES)
        except (OSError, HTTPException) as failure:
            raise ConnectFailed(f"cannot reach the OAuth 2.0 issuer at {url}: {failure}") from None

    def _refused(self, url: str, status: int, body: bytes) -> CredentialsError | ConnectFailed:
        try:
            members = json.loads(body)
            reason = " ".join(str(members[name]) for name in ("error", "error_description") if name in members)
        except (ValueError, TypeError, RecursionError):
            reason = ""
        text = f"the OAuth 2.0 issuer answers at {url} with status {status} {self._secret.hidden_in(reason)}".rstrip()
        return ConnectFailed(text) if status >= 500 or status == 429 else CredentialsError(text)


def _is_over(renew_at_ms: int | None) -> bool:
    return renew_at_ms is not None and monotonic_ms() >= renew_at_ms


def _lifetime_ms(seconds: object) -> int | None:
    """Returns for how long a token is good, None if the issuer does not say; some say it as text."""
    try:
        lives_ms = int(float(seconds) * 1000) if isinstance(seconds, int | float | str) else 0
    except (ValueError, OverflowError):
        return None
    return lives_ms if lives_ms > 0 else None


def _flow(text: Secret) -> _Flow:
    params = parse_params(text)
    if params.get("type", CLIENT_CREDENTIALS) != CLIENT_CREDENTIALS:
        raise ValueError(f"the OAuth 2.0 flow {params['type']!r} is not supported; {CLIENT_CREDENTIALS} is")
    if unknown := sorted(set(params) - _KNOWN):
        shown = ", ".join(name if _NAME.fullmatch(name) else "(no name, not shown)" for name in unknown)
        raise ValueError(f"unknown parameter {shown}; known are {', '.join(sorted(_KNOWN))}")
    issuer, key = params.get("issuerUrl", ""), params.get("privateKey", "")
    if urlsplit(issuer).scheme not in ("https", "http") or not urlsplit(issuer).hostname:
        raise ValueError("issuerUrl is missing or no https:// address")
    if "@" in issuer:
        raise ValueError("issuerUrl holds a user; credentials are in privateKey")
    if not key.startswith(("file:", "env:", _DATA_URL)):
        raise ValueError(f"privateKey is missing or neither file:///path, env:NAME nor {_DATA_URL}...")
    return _Flow(
        issuer, Secret(key), params.get("audience", ""), params.get("scope", ""), params.get("trustCertsFilePath", "")
    )


def _client(private_key: Secret) -> tuple[str, Secret]:
    """Returns the client's id and its secret, from the file or URL that `privateKey` names."""
    raw = read_source(private_key).reveal()
    if raw.startswith(_DATA_URL):
        try:
            raw = base64.b64decode(raw.removeprefix(_DATA_URL), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise CredentialsError("privateKey is no data: URL of text in base64") from None
    try:
        params = json.loads(raw)
        client_id, client_secret = params["client_id"], params["client_secret"]
    except (ValueError, TypeError, KeyError):
        client_id = client_secret = None
    if not isinstance(client_id, str) or not isinstance(client_secret, str):
        raise CredentialsError("privateKey leads to no JSON object with client_id and client_secret")
    return client_id, Secret(client_secret)
