"""Principals of HTTP requests."""

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from spark_pulsar.admin.http.refusals import Unauthenticated
from spark_pulsar.model.errors import AuthenticationError
from spark_pulsar.model.principals import UNAUTHENTICATED, Principal
from spark_pulsar.server.configuration.reading import load_config
from spark_pulsar.server.security.http import HttpAuthenticator
from spark_pulsar.server.security.provider import Authenticated, Credentials
from spark_pulsar.server.security.providers import Providers

ADMIN = ["admin", "v2", "tenants"]


class Schemed:
    """A provider that takes `Authorization: <scheme> good`."""

    is_slow = False

    def __init__(self, method: str, scheme: str) -> None:
        self.method = method
        self.scheme = scheme

    def authenticate(self, credentials: Credentials, now_ms: int) -> Authenticated:
        if credentials.data != b"good":
            raise AuthenticationError("bad")
        return Authenticated(f"{self.method} user")

    def from_headers(self, headers: Any, certificate: bytes | None) -> bytes | None:
        scheme, _, data = headers.get("authorization", "").partition(" ")
        if self.scheme == "certificate":
            return certificate
        return data.encode() if scheme == self.scheme else None


def _principal(
    headers: dict[str, str],
    segments: list[str] = ADMIN,
    certificate: bytes | None = None,
    connection: object = None,
    **settings: str,
) -> Principal:
    config = load_config(None, {"authenticationEnabled": "true", **settings})
    listed = [Schemed("token", "Bearer"), Schemed("basic", "Basic"), Schemed("tls", "certificate")]
    providers = Providers(listed, config.anonymous_user_role, lambda: 1)
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "client": ("10.0.0.1", 5)}
    scope["headers"] = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope["state"] = {"client_certificate": certificate, "authenticated": connection}
    return asyncio.run(HttpAuthenticator(providers, config)(Request(scope), segments))


def test_credentials_are_read_by_the_provider_whose_they_are() -> None:
    # covers AU-6
    assert _principal({"Authorization": "Bearer good"}) == Principal("token user")
    assert _principal({"Authorization": "Basic good"}) == Principal("basic user")
    assert _principal({}, certificate=b"good") == Principal("tls user")
    named = {"Authorization": "Basic good", "X-Pulsar-Auth-Method-Name": "basic"}
    assert _principal(named, certificate=b"bad") == Principal("basic user")
    assert _principal({"Authorization": "Bearer good"}, proxyRoles="token user") == Principal("token user")


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer bad"},
        {"Authorization": "Digest good"},
        {"Authorization": "Bearer good", "X-Pulsar-Auth-Method-Name": "basic"},
        {"Authorization": "Bearer good", "X-Pulsar-Auth-Method-Name": "unknown"},
        {"X-Pulsar-Auth-Method-Name": "token"},
    ],
)
def test_bad_credentials_are_refused_also_beside_an_anonymous_role(headers: dict[str, str]) -> None:
    # covers AU-6, SEC-2
    for settings in ({}, {"anonymousUserRole": "guest"}):
        with pytest.raises(Unauthenticated, match="Failed to authenticate") as caught:
            _principal(headers, **settings)
        assert caught.value.challenge == 'Bearer realm="pulsar", Basic realm="pulsar"'


def test_probes_and_metrics_are_open() -> None:
    # covers SEC-2
    for path in ("metrics", "admin/v2/brokers/ready", "admin/v2/brokers/version", "", "page/app.js"):
        assert _principal({}, path.split("/")) == UNAUTHENTICATED
    for path, settings in (("metrics", {"authenticateMetricsEndpoint": "true"}), ("admin/v2/brokers/health", {})):
        with pytest.raises(Unauthenticated):
            _principal({}, path.split("/"), **settings)


def test_who_has_come_in_is_in_the_audit_log_once_for_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    # covers SEC-20
    caplog.set_level("INFO", "spark_pulsar.audit")
    connection: set[object] = set()
    for original in ("", "", "a", "a", ""):
        _principal({"Authorization": "Bearer good", "X-Original-Principal": original}, connection=connection)
    assert [record.getMessage() for record in caplog.records] == [
        'allowed client="/10.0.0.1:5" role="token user" action="authenticate" resource="token"',
        'allowed client="/10.0.0.1:5" role="token user" original="a" action="authenticate" resource="token"',
    ]
    _principal({"Authorization": "Bearer good"}, connection=set(), auditLogEnabled="false")
    assert len(caplog.records) == 2
