"""Routes of the page at `/`: the files in `static/`, and the table of policies as JSON.

The files hold no data: the page gets all of it over the admin API, with the credentials of its user. They are public
therefore, where authentication is on, too. `webPageEnabled=false` takes them away.

The index names every module, so that a browser requests all of them at once instead of one import after the other, at
the address of this release (`/page/TAG/app.js`, whose imports are relative), so that it keeps them.
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
    from collections.abc import Mapping

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
_KEPT: Final = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
"""Headers of a file at the address of its release, which never changes there."""


class _File(NamedTuple):
    content: bytes
    media_type: str
    tag: str


def _file(content: bytes, name: str) -> _File:
    return _File(content, _MEDIA_TYPES[Path(name).suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')


@cache
def _stored() -> dict[str, bytes]:
    named = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in _MEDIA_TYPES}
    return {**named, POLICY_LIST: policy_list(), CONNECT: b"{}"}


@cache
def release() -> str:
    """Returns the tag of this release: it differs where any of the files does."""
    digest = hashlib.sha256()
    for name, content in _stored().items():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


@cache
def files() -> dict[str, _File]:
    """Returns all files of the page by name; they are read once."""
    return {
        name: _file(_preloading(content) if name == INDEX else content, name) for name, content in _stored().items()
    }


def _preloading(index: bytes) -> bytes:
    """Returns the index with the addresses of this release, and with a preload of each module."""
    modules = [name for name in _stored() if name.endswith(".js")]
    links = "".join(f'    <link rel="modulepreload" href="/page/{name}">\n' for name in modules)
    index = index.replace(b"  </head>", links.encode() + b"  </head>", 1)
    return index.replace(b'"/page/', f'"/page/{release()}/'.encode())


def page_file(words: str) -> tuple[_File, Mapping[str, str]] | None:
    """Returns the file at `/page/NAME` or `/page/TAG/NAME` and its headers, None where there is none. At the tag of
    another release it is the file of this one, which no browser keeps."""
    tag, _, name = words.rpartition("/")
    file = files().get(name)
    if file is None or "/" in tag:
        return None
    return file, {**(_KEPT if tag == release() else HEADERS), "ETag": file.tag}


def _answer(call: Call, words: str) -> Response:
    if not call.core.config.web_page:
        raise Refused(404, "The page is turned off: webPageEnabled=false")
    released = page_file(words)
    if released is None:
        raise Refused(404, f"There is nothing at /page/{words}")
    file, headers = released
    known = {tag.strip().removeprefix("W/") for tag in call.headers.get("if-none-match", "").split(",")}
    if file.tag in known:
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


async def _index(call: Call) -> Response:
    return _answer(call, INDEX)


async def _page_file(call: Call) -> Response:
    return _answer(call, call.parts["file"])


async def _released_file(call: Call) -> Response:
    return _answer(call, f"{call.parts['release']}/{call.parts['file']}")


ROUTES: Final[Routes] = routes(
    "",
    ("GET /", access.anyone, _index),
    ("GET /page/{file}", access.anyone, _page_file),
    ("GET /page/{release}/{file}", access.anyone, _released_file),
)
