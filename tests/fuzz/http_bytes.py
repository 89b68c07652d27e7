"""HTTP as bytes: requests that break its rules, and the answers to those that do not."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.fuzz.peer import Peer

ANSWER_TIMEOUT_S: Final = 90.0
"""Longest time for an answer; the broker itself gives up after sixty seconds what takes longer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its status, its head in lower case, its body."""

    status: int
    head: bytes
    body: bytes

    @property
    def is_last(self) -> bool:
        """Tells whether the broker closes the connection after it."""
        return b"connection: close" in self.head


def read_answer(peer: Peer, is_head: bool) -> Answer | None:
    """Reads one answer; None when no whole one comes in time, or before the broker closes the connection."""
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    data = b""
    while True:
        while data.startswith(b"HTTP/1.1 100") and b"\r\n\r\n" in data:
            data = data.partition(b"\r\n\r\n")[2]
        found = _answer_in(data, is_head, peer.closed)
        if found is not None:
            answer, end = found
            peer.put_back(data[end:])
            return answer
        left_s = deadline - time.monotonic()
        if peer.closed or left_s <= 0:
            peer.put_back(data)
            return None
        data += peer.read(left_s)


def _answer_in(data: bytes, is_head: bool, is_all: bool) -> tuple[Answer, int] | None:
    """(the first answer in the bytes, where it ends), or None when it is not whole."""
    head, separator, rest = data.partition(b"\r\n\r\n")
    if not separator or not re.match(rb"HTTP/1\.1 [2-5]\d\d", head):
        return None
    status, head, begin = int(head[9:12]), head.lower(), len(head) + 4
    length = re.search(rb"content-length: (\d+)", head)
    if is_head or status in (204, 304):
        size = 0
    elif length is not None:
        size = int(length[1])
    elif b"transfer-encoding: chunked" in head:
        size = _end_of_chunks(rest)
    else:
        size = len(rest) if is_all else -1
    if size < 0 or len(rest) < size:
        return None
    return Answer(status, head, rest[:size]), begin + size


def _end_of_chunks(data: bytes) -> int:
    """Returns the index after the last chunk; -1 when it has not come."""
    at = 0
    while True:
        line, separator, _ = data[at : at + 20].partition(b"\r\n")
        if not separator:
            return -1
        size = int(line, 16)
        at += len(line) + 2 + size + 2
        if size == 0:
            return at if at <= len(data) else -1


def chunked(choices: Random, data: bytes) -> bytes:
    """Encodes a body in chunks."""
    size = choices.choice((1, 7, 1_000, len(data))) if len(data) < 5_000 else 300_000
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


Parts = tuple[list[bytes], bytes]
"""Lines of a request's head, and its body."""


def broken_request(choices: Random, request: bytes) -> bytes:
    """Returns a request with a rule of HTTP broken, or something that is none."""
    head, _, data = request.partition(b"\r\n\r\n")
    lines, data = choices.choice(_BREAKS)(choices, (head.split(b"\r\n"), data))
    return b"\r\n".join(lines) + b"\r\n\r\n" + data


def _cut(choices: Random, parts: Parts) -> Parts:
    """Ends in the middle."""
    lines, data = parts
    if data and choices.random() < 0.5:
        return lines, data[: choices.randrange(len(data))]
    return [*lines[:-1], lines[-1][: choices.randrange(len(lines[-1]) + 1)]], b""


def _length(choices: Random, parts: Parts) -> Parts:
    """Lies about the length of the body."""
    lines, data = parts
    lies = (
        b"-1",
        b"0",
        b"1",
        b"abc",
        b"",
        b"%d" % (len(data) + 1),
        b"9" * 30,
        b"1, 2",
        b"+5",
        b"0x10",
        b"2147483648",
        b"5 5",
    )
    kept = [line for line in lines if not line.lower().startswith((b"content-length", b"transfer-encoding"))]
    said = [b"Content-Length: " + choices.choice(lies) for _ in range(choices.choice((1, 1, 2)))]
    if choices.random() < 0.2:
        said.append(b"Transfer-Encoding: chunked")
    return kept + said, data or b"{}"


def _chunks(choices: Random, parts: Parts) -> Parts:
    """Breaks the chunks of the body."""
    lines, _ = parts
    kept = [line for line in lines if not line.lower().startswith((b"content-length", b"transfer-encoding"))]
    coding = choices.choice(
        (b"chunked", b"chunked", b"chunked", b"gzip, chunked", b"identity", b"x", b"chunked, chunked")
    )
    broken = (
        *(
            b"zz\r\n{}\r\n0\r\n\r\n",
            b"-1\r\n{}\r\n",
            b"ffffffffffffffff\r\n{}",
            b"5\r\n{}\r\n0\r\n\r\n",
            b"2\r\n{}0\r\n\r\n",
            b"\r\n\r\n",
        ),
        *(
            b"2;" + b"x" * 20_000 + b"\r\n{}\r\n0\r\n\r\n",
            b"0\r\n" + b"A: b\r\n" * 3_000 + b"\r\n",
            b"2\r\n{}\r\n0\r\nbad trailer\r\n\r\n",
        ),
        *(b"1" * 200 + b"\r\n", b"2\r\n{}\r\n", b"0" * 30 + b"2\r\n{}\r\n0\r\n\r\n", choices.randbytes(100)),
    )
    return [*kept, b"Transfer-Encoding: " + coding], choices.choice(broken)


def _headers(choices: Random, parts: Parts) -> Parts:
    """Adds headers that are too long, too many, or none."""
    lines, data = parts
    added = choices.choice(
        (
            [b"X: " + b"y" * 70_000],
            [b"X-%d: y" % index for index in range(5_000)],
            [b"no colon"],
            [b": no name"],
            [b"X\0Y: z"],
            [b"X: a\nb"],
            [b" folded"],
            [b"Host: other"],
            [b"X: " + bytes(range(128, 256))],
            [b"Expect: something"],
            [b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAARAAAAA"],
            [b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: x", b"Sec-WebSocket-Version: 13"],
        )
    )
    return lines[:1] + added + lines[1:], data


def _first_line(choices: Random, parts: Parts) -> Parts:
    """Breaks the first line."""
    lines, data = parts
    method, _, rest = lines[0].partition(b" ")
    target = rest.rpartition(b" ")[0]
    first = choices.choice(
        (
            method,
            method + b" " + target,
            method + b" " + target + b" HTTP/9.9",
            method + b" " + target + b" HTTP/1.0",
            method + b" " + target + b" HTTP/0.9",
            method + b"  " + target + b" HTTP/1.1",
            method + b" " + target + b"\xff\xfe HTTP/1.1",
            method + b" " + target + b"\x7f\x01 HTTP/1.1",
            method + b" " + b"/" + b"x" * 100_000 + b" HTTP/1.1",
            method + b" noslash HTTP/1.1",
            method + b" http://[::1 HTTP/1.1",
            b"\xff " + target + b" HTTP/1.1",
            b"",
        )
    )
    return [first, *lines[1:]], data


def _no_host(choices: Random, parts: Parts) -> Parts:
    """Leaves the host out."""
    lines, data = parts
    return [line for line in lines if not line.startswith(b"Host")], data


def _strangers(choices: Random, parts: Parts) -> Parts:
    """Speaks something else."""
    spoken = (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + choices.randbytes(500),
        b"\0\0\0\x10\0\0\0\x0c\x08\x02\x12\x08\x0a\x01x",
        b"\r\n" * 10_000,
        b"\n" * 100,
        b"\0" * 70_000,
        choices.randbytes(choices.choice((1, 100, 100_000))),
    )
    return [choices.choice(spoken)], b""


_BREAKS: Final[tuple[Callable[[Random, Parts], Parts], ...]] = (
    *(_cut, _length, _chunks, _chunks, _headers, _first_line, _no_host, _strangers),
)
