"""Routes of the page at `/`: the files in `static/`, and the table of policies as JSON.

The files hold no data: the page gets all of it over the admin API, with the credentials of its user. They are public
therefore, where authentication is on, too. `webPageEnabled=false` takes them away.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.responses import Response

from spark_pulsar.admin.http import access
from spark_pulsar.admin.http.calls import routes
from spark_pulsar.admin.http.refusals import Refused

from .policy_list import policy_list

if TYPE_CHECKING:
    from spark_pulsar.admin.http.calls import Call, Routes

FOLDER: Final = Path(__file__).with_name("static")
INDEX: Final = "index.html"
POLICY_LIST: Final = "policies.json"
CONNECT: Final = "connect.json"
"""Addresses that the server of the page was given: none here, where the cluster's document names them."""
_MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-cache",
}
"""Headers of every file: nothing of another origin is loaded, no other page may frame this one. A copy that a browser
keeps is requested again by its tag, so that a new release shows at once."""


class _File(NamedTuple):
    content: bytes
    media_type: str
    tag: str


def _file(content: bytes, name: str) -> _File:
    return _File(content, _MEDIA_TYPES[Path(name).suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@cache
def files() -> dict[str, _File]:
    """Returns all files of the page by name; they are read once."""
    named = {path.name: _file(path.read_bytes(), path.name) for path in FOLDER.iterdir() if path.suffix in _MEDIA_TYPES}
    return {**named, POLICY_LIST: _file(policy_list(), POLICY_LIST), CONNECT: _file(b"{}", CONNECT)}


def _answer(call: Call, name: str) -> Response:
    if not call.core.config.web_page:
        raise Refused(404, "The page is turned off: webPageEnabled=false")
    file = files().get(name)
    if file is None:
        raise Refused(404, f"There is nothing at /page/{name}")
    headers = {**HEADERS, "ETag": file.tag}
    known = {tag.strip().removeprefix("W/") for tag in call.headers.get("if-none-match", "").split(",")}
    if file.tag in known:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


async def _index(call: Call) -> Response:
    return _answer(call, INDEX)


async def _page_file(call: Call) -> Response:
    return _answer(call, call.parts["file"])


ROUTES: Final[Routes] = routes(
    "",
    ("GET /", access.anyone, _index),
    ("GET /page/{file}", access.anyone, _page_file),
)
