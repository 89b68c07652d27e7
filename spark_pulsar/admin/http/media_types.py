"""Media types of requests: JSON in and out, and other types refused as Apache Pulsar refuses them (T-12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from .refusals import Refused

_PREFIXES: Final = ("admin", "lookup")
"""First segments of paths that speak JSON; metrics and the page do not."""
_ACCEPTED: Final = frozenset({"*/*", "application/*", "application/json", "application/octet-stream"})
_JSON: Final = "application/json"
_TEXT: Final = "text/plain"


def check(method: str, segments: Sequence[str], headers: Mapping[str, str]) -> None:
    """Refuses a request whose `Accept` has none of the types that are answered (406), or whose body is of another type
    than JSON (415). A number of partitions may be plain text."""
    if segments[0] not in _PREFIXES:
        return
    accepted = _types_in(headers.get("accept", ""))
    if accepted and accepted.isdisjoint(_ACCEPTED):
        raise Refused(406, f"Answers are {_JSON}: 'Accept' requests {headers['accept'][:100]!r}")
    if method in ("GET", "HEAD", "OPTIONS") or not _has_body(headers):
        return
    sent = headers.get("content-type", "")
    is_text = _types_in(sent) == {_TEXT} and segments[-1] == "partitions"
    if _types_in(sent) != {_JSON} and not is_text:
        raise Refused(415, f"A body is {_JSON}: 'Content-Type' is {sent[:100]!r}")


def _types_in(header: str) -> set[str]:
    return {part.partition(";")[0].strip().lower() for part in header.split(",")} - {""}


def _has_body(headers: Mapping[str, str]) -> bool:
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
