"""An Apache Pulsar with TLS, three ways of authentication and authorization."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.apache_pulsar.start import ApachePulsar, free_ports
from tests.security.certificates import Authority, TokenIssuer

ADMIN, ROLE, STRANGER = "admin", "spark", "stranger"
"""Roles: the broker's own, one that may do everything, one that may do nothing."""
USER, PASSWORD = "spark", "s3cret-basic"
_HASHED_PASSWORD = "$apr1$spark123$/ojVlOmu67.WcHHFqIgCA0"
HOST = "broker-1.pulsar.test"
"""A name of the broker that nobody can resolve."""
LISTENER = "outside"
_AUTH = "org.apache.pulsar.client.impl.auth."
TOKEN_PLUGIN = f"{_AUTH}AuthenticationToken"
BASIC_PLUGIN = f"{_AUTH}AuthenticationBasic"
TLS_PLUGIN = f"{_AUTH}AuthenticationTls"
OAUTH2_PLUGIN = f"{_AUTH}oauth2.AuthenticationOAuth2"
_PROVIDERS = ("AuthenticationProviderToken", "AuthenticationProviderBasic", "AuthenticationProviderTls")


@dataclass(frozen=True)
class SecuredPulsar:
    """A running broker, and the authorities that it trusts."""

    process: ApachePulsar
    service_url: str
    """`pulsar+ssl://127.0.0.1:PORT`."""
    plain_url: str
    """The same broker without TLS, but not without credentials."""
    port: int
    authority: Authority
    issuer: TokenIssuer


@contextlib.contextmanager
def secured_pulsar(directory: Path) -> Iterator[SecuredPulsar]:
    """Starts one, and stops it in the end."""
    port, tls_port, http_port, bookie_port = free_ports(4)
    authority, issuer = Authority(directory / "authority"), TokenIssuer(directory / "tokens")
    certificate, key = authority.issue("127.0.0.1", "localhost", HOST)
    passwords = directory / "htpasswd"
    passwords.write_text(f"{USER}:{_HASHED_PASSWORD}\n")
    admin = issuer.token(ADMIN)
    conf = {
        "brokerServicePortTls": str(tls_port),
        "tlsCertificateFilePath": str(certificate),
        "tlsKeyFilePath": str(key),
        "tlsTrustCertsFilePath": str(authority.path),
        "authenticationEnabled": "true",
        "authenticationProviders": ",".join(f"org.apache.pulsar.broker.authentication.{name}" for name in _PROVIDERS),
        "authenticationRefreshCheckSeconds": "1",
        "tokenPublicKey": issuer.public_key_path.as_uri(),
        "basicAuthConf": passwords.as_uri(),
        "authorizationEnabled": "true",
        "superUserRoles": f"{ADMIN},{ROLE}",
        "brokerClientAuthenticationPlugin": TOKEN_PLUGIN,
        "brokerClientAuthenticationParameters": f"token:{admin}",
        "advertisedListeners": (
            f"inside:pulsar://127.0.0.1:{port},inside:pulsar+ssl://127.0.0.1:{tls_port},"
            f"{LISTENER}:pulsar+ssl://{HOST}:6651"
        ),
        "internalListenerName": "inside",
    }
    process = ApachePulsar(
        directory / "data", port, http_port, bookie_port, conf, headers={"Authorization": f"Bearer {admin}"}
    )
    process.start()
    try:
        yield SecuredPulsar(
            process, f"pulsar+ssl://127.0.0.1:{tls_port}", process.service_url, tls_port, authority, issuer
        )
    finally:
        process.stop()
