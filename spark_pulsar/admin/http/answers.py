"""Requests and answers of the admin API: bodies of any content type, refusals as `{"reason": ...}` (T-1, T-2 ...
T-13)."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from spark_pulsar.broker.topics.name_limits import check_properties
from spark_pulsar.model.errors import NotAllowed

from .refusals import Refused
from .slices import SLICE_S, next_slice, read_in_slices

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from .slices import Steps

MAX_BODY_BYTES = 1024 * 1024
_SHORT = 512
"""Members of a value that are written as JSON at once."""
_CHARACTERS_A_MEMBER = 256
"""Characters of a text that count as much as a member."""
MAX_DEPTH = 100
"""Depth of objects and lists in a body. No call needs ten; a deep document is read and written again and again."""


def warned(answer: Response, note: str) -> Response:
    """Adds to an answer what its caller should know, such as that a setting is stored without effect: the header
    `Warning` (RFC 7234)."""
    answer.headers["Warning"] = f'299 spark-pulsar "{note}"'
    return answer


def parse_body(body: bytes) -> Any:
    """Parses a body as JSON, whatever its content type; None for the bodies that mean nothing (T-12, T-13)."""
    text = body.strip()
    if not text:
        return None
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
        if text.count(b"[") + text.count(b"{") > MAX_DEPTH and _is_too_deep(value):
            raise RecursionError
        if b"\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # half of a surrogate pair is a text that cannot be stored
    except ValueError as error:
        raise Refused(400, f"The request body is no JSON: {error}") from error
    except RecursionError as error:
        raise Refused(400, f"The request body is nested more than {MAX_DEPTH} deep") from error
    return None if value == "" else value


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number in JSON")


def _finite(text: str) -> float:
    """Reads a number; one that is too large for its type could be stored, and never be shown again."""
    value = float(text)
    if math.isinf(value):
        _no_number(text[:40])
    return value


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for item in level
            if isinstance(item, list | dict)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def whole_number(value: object, what: str) -> int:
    """Reads a number, or its text (T-16); anything else is 400."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Refused(400, f"{what}: want a number")
    try:
        return int(value)
    except (ValueError, OverflowError) as error:
        raise Refused(400, f"{what}: {value!r} is no number") from error


def text_map(value: object, what: str) -> dict[str, str]:
    """Reads a map of texts within the bound of properties; None is an empty one. 413 when they are too long."""
    texts = unbounded_text_map(value, what)
    try:
        check_properties(what.capitalize(), texts)
    except NotAllowed as error:
        raise Refused(413, error.message) from error
    return texts


def unbounded_text_map(value: object, what: str) -> dict[str, str]:
    """Reads a map of texts of any length; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise Refused(400, f"{what}: want a map of texts")
    return {str(key): str(item) for key, item in value.items()}


def flag(value: str | None) -> bool:
    """Reads a query value that is true or false; absent is false."""
    return value is not None and value.lower() == "true"


def json_pieces(value: Any, *, ensure_ascii: bool = False) -> Iterator[str]:
    """Writes a value as JSON in pieces, each in little time."""
    if not _is_long(value):
        yield json.dumps(value, ensure_ascii=ensure_ascii, allow_nan=False, separators=(",", ":"))
    elif isinstance(value, dict):
        before = "{"
        for key, item in value.items():
            yield f"{before}{json.dumps(key, ensure_ascii=ensure_ascii)}:"
            yield from json_pieces(item, ensure_ascii=ensure_ascii)
            before = ","
        yield "}"
    elif isinstance(value, str):
        yield json.dumps(value, ensure_ascii=ensure_ascii)
    elif any(isinstance(item, dict | list) for item in value[:1]):
        before = "["
        for item in value:
            yield before
            yield from json_pieces(item, ensure_ascii=ensure_ascii)
            before = ","
        yield "]"
    else:
        before = "["
        for at in range(0, len(value), _SHORT):
            items = value[at : at + _SHORT]
            part = json.dumps(items, ensure_ascii=ensure_ascii, allow_nan=False, separators=(",", ":"))
            yield before + part[1:-1]
            before = ","
        yield "]"


def _is_long(value: Any) -> bool:
    """Returns whether a value has more members and text, in all, than one piece has."""
    left, level = _SHORT, [value]
    while level:
        inner: list[Any] = []
        for item in level:
            if isinstance(item, str):
                left -= len(item) // _CHARACTERS_A_MEMBER
            elif isinstance(item, dict | list):
                left -= len(item)
            else:
                continue
            if left < 0:
                return True
            if not isinstance(item, str):
                inner += item.values() if isinstance(item, dict) else item
        level = inner
    return False


async def json_answer(value: object, status: int = 200) -> Response:
    """Returns a value as JSON; a long one is written in slices."""
    if not _is_long(value):
        return JSONResponse(value, status)

    def write() -> Steps[bytes]:
        pieces: list[str] = []
        for piece in json_pieces(value):
            pieces.append(piece)
            yield
        return "".join(pieces).encode()

    return Response(await read_in_slices(write()), status, media_type="application/json")


class Piecewise(Response):
    """An answer of blocks of bytes, each made in little time: ten thousand topics neither hold up the broker nor fill
    its memory."""

    def __init__(self, blocks: Iterator[bytes], media_type: str) -> None:
        super().__init__(None, 200, media_type=media_type)
        del self.headers["content-length"]
        self._blocks = blocks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the blocks, in slices of `SLICE_S`.

        Shorter ones would starve the journal's thread: each round of the loop releases the interpreter for a moment,
        and a thread that waits for it begins its wait anew each time (`_SWITCH_INTERVAL_S` in `server.runner`).
        """
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] != "HEAD":
            await next_slice()
            end_s = time.perf_counter() + SLICE_S
            for block in self._blocks:
                if block:
                    await send({"type": "http.response.body", "body": block, "more_body": True})
                if time.perf_counter() >= end_s:
                    await next_slice()
                    end_s = time.perf_counter() + SLICE_S
        await send({"type": "http.response.body", "body": b"", "more_body": False})
