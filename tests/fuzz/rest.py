"""One attack on the REST API: calls of the routes that the application is made of, and bytes that are no call."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import quote

from spark_pulsar import admin
from spark_pulsar.admin.app import ROUTES
from tests.fuzz import values
from tests.fuzz.bodies import body
from tests.fuzz.door import Door
from tests.fuzz.http_bytes import Answer, broken_request, chunked, read_answer
from tests.fuzz.peer import Finding, Peer

_NO_METHODS: Final = ("FOO", "get", "M" * 300)
_METHODS: Final = (*["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT"], *_NO_METHODS)
_CONTENT_TYPES: Final = (
    "application/json",
    "text/plain",
    "application/json; charset=utf-16",
    "multipart/form-data",
    "",
    "x" * 900,
)

_SMALL_BYTES: Final = 8_000
"""Size of a request that the broker has read whenever it answers."""

HELD_BACK: Final = {
    ("DELETE", "admin/v2/clusters/{cluster}"): "without its cluster a broker has nowhere to make namespaces",
    ("POST", "admin/v2/clusters/{cluster}"): "the cluster's addresses are what lookups of every client tell",
}
"""Calls that are refused to attacks, with the reason. Of the canary's tenant no attack knows the name."""


def attack(choices: Random, door: Door) -> None:
    """Attacks once. Raises Finding when the broker misbehaves."""
    peer = Peer(door)
    token = door.token(choices)
    try:
        way = choices.random()
        if way < 0.72:
            for _ in range(choices.choice((1, 1, 2, 5))):
                request, path = _request(choices, token)
                peer.write_in_pieces(choices, request)
                if not _judge(peer, request, path):
                    break
        elif way < 0.8:
            _pipeline(choices, peer, token)
        else:
            _break(choices, peer, token)
    finally:
        peer.close()


def _judge(peer: Peer, request: bytes, path: str, *, may_be_cut: bool = False) -> bool:
    """Reads the answer to a whole request, which must come, and must be no failure of the broker; tells whether another
    may follow."""
    answer = read_answer(peer, is_head=path.startswith("HEAD "))
    if answer is None:
        if peer.closed and (may_be_cut or len(request) > _SMALL_BYTES):
            return False  # the answer to what the broker stops reading may be lost
        raise Finding(f"no answer to {path}; {'closed' if peer.closed else 'open'} after {peer.read(0)[:200]!r}")
    if answer.status >= 500 and answer.status not in (501, 505) and not _is_meant(answer):
        raise Finding(f"{path} was answered {answer.status}: {answer.body[:1_000]!r}")
    return not answer.is_last and answer.status != 413  # then the rest of its body is not read


def _is_meant(answer: Answer) -> bool:
    """Tells whether this broker answers so on purpose, as Apache Pulsar does."""
    return (answer.status == 503 and b'"reason"' in answer.body) or b"Not enough bookies to create" in answer.body


def _pipeline(choices: Random, peer: Peer, token: str) -> None:
    requests = [_request(choices, token) for _ in range(choices.choice((2, 5, 50)))]
    peer.write_in_pieces(choices, b"".join(request for request, _ in requests))
    is_large = sum(len(request) for request, _ in requests) > _SMALL_BYTES
    # A request that is no HTTP ends the connection while answers to those before it are written.
    may_be_cut = is_large or any(request.startswith(f"{no} ".encode()) for request, _ in requests for no in _NO_METHODS)
    for request, path in requests[: choices.randrange(len(requests) + 1)]:
        if (is_large and peer.closed) or not _judge(peer, request, f"{path}, pipelined", may_be_cut=may_be_cut):
            break
    if choices.random() < 0.3:
        peer.reset()


def _break(choices: Random, peer: Peer, token: str) -> None:
    request, path = _request(choices, token)
    peer.write_in_pieces(choices, broken_request(choices, request))
    way = choices.random()
    if way < 0.2:
        peer.reset()
        return
    if way < 0.5:
        peer.half_close()
    answer = peer.read(0.05)
    if re.match(rb"HTTP/1\.1 50[02467]", answer):
        raise Finding(f"{path}, broken, was answered {answer[:1_000]!r}")


def _request(choices: Random, token: str) -> tuple[bytes, str]:
    """Draws a whole call; (its bytes, its first line in short)."""
    path, methods = choices.choice(ROUTES)
    method = choices.choice(list(methods)) if choices.random() < 0.85 else choices.choice(_METHODS)
    if (method, path) in HELD_BACK:
        method = "GET"
    target = "/" + "/".join(_segment(choices, part) for part in path.split("/")) + _query(choices)
    if choices.random() < 0.04:
        target = choices.choice(
            ("*", "//", "/", "/..", "/admin/v2/../../etc/passwd", "http://x" + target, target + "/", target + "#x")
        )
    headers = [f"Host: {choices.choice(('localhost', '127.0.0.1:8080', 'x' * 300))}"]
    if token:
        headers.append(f"Authorization: Bearer {token}")
    data = body(choices, path) if method in ("PUT", "POST", "DELETE") or choices.random() < 0.1 else b""
    if data:
        headers.append(f"Content-Type: {choices.choice(_CONTENT_TYPES)}")
    if data and choices.random() < 0.2:
        headers.append("Transfer-Encoding: chunked")
        data = chunked(choices, data)
    else:
        headers.append(f"Content-Length: {len(data)}")
    if choices.random() < 0.05:
        headers.append(
            choices.choice(
                ("Origin: http://evil.example", "Expect: 100-continue", "Upgrade: websocket", "X: " + "y" * 5_000)
            )
        )
    first = f"{method} {target} HTTP/1.1"
    head = "\r\n".join([first, *headers]).encode("utf-8", "surrogatepass")
    return head + b"\r\n\r\n" + data, f"{method} {target}"[:300] + f" {data[:300]!r}"


def _segment(choices: Random, part: str) -> str:
    if not part.startswith("{"):
        return part if choices.random() < 0.99 else _encoded(choices, values.text(choices))
    name = part[1:-1]
    if choices.random() < 0.12:
        return _encoded(choices, values.text(choices))
    return _encoded(choices, _NAMED.get(name, _anything)(choices))


def _encoded(choices: Random, text: str) -> str:
    way = choices.random()
    if way < 0.02:
        return choices.choice(("%", "%zz", "%ff%fe", "%00", "%2F%2F", "..", "%2e%2e", "", "%C0%AF", "%ud800", ";a=b"))
    safe = "" if way < 0.9 else "/:@!$&'()*,;=.~"
    return quote(text.encode("utf-8", "surrogatepass")[:3_000], safe=safe)


def _anything(choices: Random) -> str:
    return str(values.integer(choices)) if choices.random() < 0.5 else values.text(choices)


_NAMED: Final = {
    "domain": lambda choices: choices.choice(("persistent", "persistent", "persistent", "non-persistent", "x")),
    "tenant": lambda choices: choices.choice(values.TENANTS),
    "namespace": lambda choices: choices.choice(("default", "one", "two", "gone", "more")),
    "topic": lambda choices: choices.choice(values.LOCAL_NAMES),
    "subscription": values.subscription,
    "cluster": lambda choices: choices.choice(("standalone", "other", "c" * 100)),
    "bundle": lambda choices: choices.choice(("0x00000000_0x40000000", "0x00000000_0xffffffff", "0xg_0x", "0_1")),
    "ledger": lambda choices: str(choices.randrange(60)),
    "entry": lambda choices: str(choices.choice((0, 1, 5, 2**63))),
    "number": lambda choices: str(choices.choice((0, 1, 2, 100, 2**31, -1))),
    "count": lambda choices: str(choices.choice((0, 1, 5, -1, 2**31, 2**63, 2**64))),
    "time": lambda choices: str(choices.choice((0, 1, 1_700_000_000_000, 2**63 - 1, 2**63, -1))),
    "seconds": lambda choices: str(choices.choice((0, 1, 100, -1, 2**31, 2**63))),
    "most": lambda choices: str(choices.choice((0, 0, 0, 1, -1, 2**63, 2**64))),
    "least": lambda choices: str(choices.choice((0, 1, 2, 3, -1, 2**63, 2**64))),
    "timeout": lambda choices: str(choices.choice((0, 1, 60_000, -1, 2**63))),
    "version": lambda choices: str(choices.choice((0, 1, 2, -1, 2**63))),
}


@cache
def _query_names() -> tuple[str, ...]:
    """Names of all query values that the handlers read, found in their sources."""
    sources = "".join(path.read_text() for path in sorted(Path(admin.__file__).parent.rglob("*.py")))
    return tuple(sorted({*re.findall(r'(?:query\.get|flag)\("(\w+)"', sources), "messageTTL", "x"}))


def _query(choices: Random) -> str:
    if choices.random() < 0.5:
        return ""
    drawn = []
    for _ in range(choices.choice((1, 1, 2, 3, 30))):
        value = choices.choice(
            ("true", "false", "0", "1", "5", "-1", "earliest", "ALL", "destination_storage", "message_age")
        )
        if choices.random() < 0.3:
            value = str(values.integer(choices)) if choices.random() < 0.5 else values.text(choices)
        drawn.append(f"{choices.choice(_query_names())}={_encoded(choices, value)}")
    return "?" + "&".join(drawn)
