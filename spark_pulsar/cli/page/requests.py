"""Requests of the page that `spark-pulsar page` forwards: which ones it takes, from whom, and how large (SEC-90)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlsplit

from spark_pulsar.admin.http.origins import host_of
from spark_pulsar.admin.http.path_names import DOTS

MAX_BODY_BYTES: Final = 1 << 20
_ADMIN: Final = "/admin/v2/"
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_CHANGING: Final = frozenset({"POST", "PUT", "DELETE"})


class RefusedRequest(Exception):
    """A request that is not forwarded."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Guard:
    """Admission of requests: of this machine's browser, which was given the key of this run, and of its own page."""

    def __init__(self, port: int) -> None:
        self.key = secrets.token_urlsafe(24)
        self.cookie = f"spark-pulsar-page-{port}"
        """Name of the cookie that holds the key; a browser sends cookies to all ports of a host."""

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Refuses another site's name that leads here (DNS rebinding). Raises RefusedRequest."""
        if host_of(headers.get("host", "")) not in _LOOPBACK:
            raise RefusedRequest(403, "this page is at http://127.0.0.1 alone")

    def is_key(self, text: str) -> bool:
        """Returns whether a text is the key of this run."""
        return secrets.compare_digest(text.encode(), self.key.encode())

    def check(self, method: str, headers: Mapping[str, str]) -> None:
        """Refuses a request without the key, and one that another site's page sends. Raises RefusedRequest."""
        self.check_host(headers)
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            cookie = None
        if cookie is None or not self.is_key(cookie.value):
            raise RefusedRequest(403, "this needs the address with the key that spark-pulsar page printed")
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise RefusedRequest(403, "a page of another site may not use this one")
        if method in _CHANGING and headers.get("origin", "") != f"http://{headers.get('host', '')}":
            raise RefusedRequest(403, "what changes something needs the Origin of this page")


def body_bytes(headers: Mapping[str, str]) -> int:
    """Returns the length of a request's body. Raises RefusedRequest."""
    if "transfer-encoding" in headers:
        raise RefusedRequest(411, "a body needs a Content-Length")
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit()):
        raise RefusedRequest(400, f"Content-Length {text[:20]!r} is no number")
    if int(text) > MAX_BODY_BYTES:
        raise RefusedRequest(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
    return int(text)


def _is_step(segment: str) -> bool:
    return segment in (".", "..") or segment in DOTS or "%2e" in segment.lower()


def forwarded_path(target: str) -> str:
    """Returns the path and query to call the admin API with. Raises RefusedRequest for anything else: this is no proxy
    for other addresses."""
    parts = urlsplit(target)
    is_own = target.startswith(_ADMIN) and not parts.scheme and not parts.netloc and target.isascii()
    segments = parts.path.split("/")
    if not is_own or any(_is_step(segment) for segment in segments[:6]):
        raise RefusedRequest(404, f"only {_ADMIN}… is forwarded")
    names = [DOTS.get(segment, segment) if index > 5 else segment for index, segment in enumerate(segments)]
    dotted = "/".join(names if segments[3] in ("persistent", "non-persistent") else segments)
    return dotted + (f"?{parts.query}" if parts.query else "")
