"""Calls of the admin API (REST): JSON there and back, one kind of error, and credentials that never leave TLS."""

from __future__ import annotations

import json
import logging
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

NO_BODY: Final = object()
"""Body of a call that has none; None is `null`."""
_LOG: Final = logging.getLogger("spark_pulsar.admin")


class RestError(Exception):
    """A call that was refused with an HTTP status, or that got no answer: `status` is 0 then."""

    def __init__(self, url: str, status: int, text: str, cause: object) -> None:
        super().__init__(f"{status} {cause}" if status else str(cause))
        self.url = url
        self.status = status
        self.text = text
        """Body of the refusal."""
        self.cause = cause
        """Phrase of the status, or the reason why there is no answer: an error or a text."""

    @property
    def reason(self) -> str:
        """Reason of a refusal that a broker, or a proxy before it, gives; empty for none."""
        answer = parsed(self.text)
        return str(answer.get("reason") or answer.get("message") or "") if isinstance(answer, dict) else ""


class Answer(NamedTuple):
    """An answer: all its headers, and its body."""

    headers: list[tuple[str, str]]
    body: bytes

    @property
    def value(self) -> Any:
        """The body as JSON, or as text where it is none; None for an empty one."""
        return parsed(self.body.decode())


class RestApi:
    """A REST API at one address."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        *,
        timeout_s: float = 60.0,
        uses_proxies: bool = True,
        most_bytes: int | None = None,
    ) -> None:
        """`headers`: those of every call, such as credentials; `uses_proxies`: those that the environment names;
        `most_bytes` of an answer are read, all without it."""
        self.url = url.rstrip("/")
        self._headers = dict(headers or {})
        self._timeout_s = timeout_s
        self._limit = () if most_bytes is None else (most_bytes,)
        handlers: list[urllib.request.BaseHandler] = [_Redirects()]
        if tls is not None:
            handlers.append(urllib.request.HTTPSHandler(context=tls))
        if not uses_proxies:
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def call(
        self,
        method: str,
        path: str,
        body: object = NO_BODY,
        query: Mapping[str, object] | None = None,
        accept: str = "",
    ) -> Answer:
        """Makes a call, with a JSON body if there is one; a query value that is None is left out. Raises RestError."""
        words = {name: _word(value) for name, value in (query or {}).items() if value is not None}
        url = f"{self.url}{path}" + (f"?{urlencode(words)}" if words else "")
        headers = {**({"Accept": accept} if accept else {}), **self._headers}
        if body is not NO_BODY:
            headers["Content-Type"] = "application/json"
        data = None if body is NO_BODY else json.dumps(body).encode()
        _LOG.debug("%s %s", method, url)
        try:
            request = urllib.request.Request(url, data, headers, method=method)
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                _LOG.debug("status %d", answer.status)
                return Answer(answer.headers.items(), answer.read(*self._limit))
        except urllib.error.HTTPError as error:
            with error:
                raise RestError(
                    url, error.code, error.read(*self._limit).decode(errors="replace"), error.reason
                ) from None
        except (OSError, HTTPException, UnicodeError) as error:
            raise RestError(url, 0, "", getattr(error, "reason", error)) from error


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Redirects, to another broker of a cluster, that take the credentials along: never from HTTPS to HTTP (SEC-83)."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https://") and not newurl.startswith("https://"):
            fp.close()
            raise urllib.error.URLError(f"it redirects from HTTPS to {newurl.partition('?')[0]}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def parsed(text: str) -> Any:
    """Returns a text as JSON, or as it is where it is none; None for an empty one."""
    if not text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
