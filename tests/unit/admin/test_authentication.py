"""The admin API asks for credentials before anything else."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from starlette.requests import Request

from spark_pulsar.admin.app import build_app
from spark_pulsar.admin.http.refusals import Unauthenticated
from spark_pulsar.broker.turn.effects import WriteAudit
from spark_pulsar.model.principals import Principal


async def _authenticate(request: Request, segments: Sequence[str]) -> Principal:
    if request.headers.get("authorization") != "Bearer good" or segments[0] != "admin":
        raise Unauthenticated("Authentication required", 'Bearer realm="pulsar"')
    return Principal("u")


def _status(
    method: str, path: str, audit: Callable[[WriteAudit], None] | None = None, **headers_in: str
) -> tuple[int, dict[bytes, bytes], bytes]:
    sent: list[Any] = []
    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": [(name.encode(), value.encode()) for name, value in headers_in.items()]}
    scope |= {"http_version": "1.1", "scheme": "http", "server": ("x", 80), "client": ("y", 1)}

    async def receive() -> dict[str, Any]:
        raise AssertionError("the body of a stranger is not read")

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(build_app(lambda: None, authenticate=_authenticate, audit=audit)(scope, receive, send))  # type: ignore[arg-type]
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


def test_strangers_learn_nothing_of_paths() -> None:
    # covers AU-6
    for method, path in (("GET", "/admin/v2/tenants"), ("PUT", "/admin/v2/tenants/a"), ("GET", "/nowhere")):
        status, headers, body = _status(method, path)
        assert (status, headers[b"www-authenticate"]) == (401, b'Bearer realm="pulsar"')
        assert body == b'{"reason":"Authentication required"}'
    assert _status("GET", "/admin/nowhere", authorization="Bearer good")[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "authorization", "lines"),
    [
        ("GET", "/admin/v2/tenants", "", []),  # those who authenticate write it themselves
        ("GET", "/admin/v2/tenants", "Bearer good", []),
        ("PUT", "/admin/v2/tenants/a%0Ab", "Bearer good", [("u", "PUT", "/admin/v2/tenants/a\nb", True, "status 503")]),
        ("DELETE", "/admin/nowhere", "Bearer good", [("u", "DELETE", "/admin/nowhere", True, "status 404")]),
    ],
)
def test_changes_are_in_the_audit_log(
    method: str, path: str, authorization: str, lines: list[tuple[str, str, str, bool, str]]
) -> None:
    # covers SEC-20
    written: list[WriteAudit] = []
    _status(method, path, audit=written.append, authorization=authorization)
    assert [(each.role, each.action, each.resource, each.is_allowed, each.reason) for each in written] == lines
    assert all(each.peer == "/y:1" for each in written)


def test_pages_of_other_sites_are_in_the_audit_log() -> None:
    # covers SEC-20
    written: list[WriteAudit] = []
    _status("DELETE", "/admin/v2/tenants/a", audit=written.append, authorization="Bearer good", origin="http://evil")
    assert [(each.role, each.is_allowed, each.reason) for each in written] == [(None, False, "status 403")]
