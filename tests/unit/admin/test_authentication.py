"""The admin API asks for credentials before anything else."""

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from spark_pulsar.admin.answers import Unauthenticated
from spark_pulsar.admin.app import build_app
from spark_pulsar.model.principals import Principal


async def _authenticate(request: Request, segments: Sequence[str]) -> Principal:
    if request.headers.get("authorization") != "Bearer good" or segments[0] != "admin":
        raise Unauthenticated("Authentication required", 'Bearer realm="pulsar"')
    return Principal("u")


def _status(method: str, path: str, **headers_in: str) -> tuple[int, dict[bytes, bytes], bytes]:
    sent: list[Any] = []
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": [(name.encode(), value.encode()) for name, value in headers_in.items()]}
    scope |= {"http_version": "1.1", "scheme": "http", "server": ("x", 80), "client": ("y", 1)}

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body of a stranger is not read")

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(build_app(lambda: None, authenticate=_authenticate)(scope, receive, send))  # type: ignore[arg-type]
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


def test_strangers_learn_nothing_of_paths() -> None:
    # covers AU-6
    for method, path in (("GET", "/admin/v2/tenants"), ("PUT", "/admin/v2/tenants/a"), ("GET", "/nowhere")):
        status, headers, body = _status(method, path)
        assert (status, headers[b"www-authenticate"]) == (401, b'Bearer realm="pulsar"')
        assert body == b'{"reason":"Authentication required"}'
    assert _status("GET", "/admin/nowhere", authorization="Bearer good")[0] == 404
