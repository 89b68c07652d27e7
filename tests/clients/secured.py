"""A broker, ours or Apache Pulsar, that clients reach over TLS with a certificate of theirs, and with a token or as the
role of that certificate."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import spark_pulsar
from spark_pulsar.testing.security import ADMIN_ROLE, ProcessSecurity
from tests.apache_pulsar.start import ApachePulsar, free_ports

PROVIDERS = ",".join(
    f"org.apache.pulsar.broker.authentication.AuthenticationProvider{name}" for name in ("Token", "Tls")
)
TOKEN_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
MTLS = {"authenticationProviders": PROVIDERS, "tlsRequireTrustedClientCertOnConnect": "true"}


@dataclass(frozen=True)
class Secured:
    """Addresses of the broker, and what a client of the role `admin` shows."""

    service_url: str
    admin_url: str
    trusted: Path
    """The authority of all certificates."""
    token: str
    bad_token: str
    """A token that another key has signed."""
    certificate: Path
    key: Path


@contextlib.contextmanager
def secured_broker(kind: str, directory: Path) -> Iterator[Secured]:
    """Starts one, and stops it in the end."""
    other = ProcessSecurity(directory / "other", "127.0.0.1", token=True, tls=False)
    if kind == "ours":
        with spark_pulsar.broker_process(conf=MTLS, token=True, tls=True) as broker:
            yield _secured(broker.security, other, broker.service_url, broker.admin_url)
        return
    security = ProcessSecurity(directory / "security", "127.0.0.1", token=True, tls=True)
    port, tls_port, http_port, https_port, bookie_port = free_ports(5)
    admin = security.token(ADMIN_ROLE)
    inside = {
        "brokerServicePort": str(port),
        "webServicePort": str(http_port),
        "brokerServicePortTls": str(tls_port),
        "webServicePortTls": str(https_port),
        "authorizationEnabled": "true",
        "superUserRoles": ADMIN_ROLE,
        "brokerClientAuthenticationPlugin": TOKEN_PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{admin}",
    }
    process = ApachePulsar(
        directory / "data",
        port,
        http_port,
        bookie_port,
        security.conf | MTLS | inside,
        headers={"Authorization": f"Bearer {admin}"},
    )
    process.start()
    try:
        yield _secured(security, other, f"pulsar+ssl://127.0.0.1:{tls_port}", f"https://127.0.0.1:{https_port}")
    finally:
        process.stop()


def _secured(security: ProcessSecurity, other: ProcessSecurity, service_url: str, admin_url: str) -> Secured:
    trusted = security.access(ADMIN_ROLE, service_url, admin_url).trust_certs_path
    assert trusted is not None
    tokens = security.token(ADMIN_ROLE), other.token(ADMIN_ROLE)
    return Secured(service_url, admin_url, trusted, *tokens, *security.certificate(ADMIN_ROLE))
