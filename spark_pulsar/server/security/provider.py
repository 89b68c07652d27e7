"""The form of an authentication provider: credentials in, a role out (AU-1); `providers` has those of a broker
(SEC-1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_pulsar.model.principals import Principal

VOUCHED: Final = "vouched"
"""Name of the extra information, in a connection inside the process, that holds the `Vouched` of its client."""
CLIENT_CERTIFICATE: Final = "client_certificate"
"""Key of the connection's client certificate, in DER form or None, in the state of an HTTP request."""
ON_GONE: Final = "on_gone"
"""Key of the set of functions that are called when the connection is lost, in the state of an HTTP request."""
AUTHENTICATED: Final = "authenticated"
"""Key of the set of principals and methods that the audit log has of the connection."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of a client, from CONNECT or AUTH_RESPONSE or from an HTTP request."""

    method: str
    """Name of the method, `token`, `basic`, `tls`; empty when the client names none."""
    data: bytes = field(repr=False)
    """`auth_data` of the command; for HTTP what `from_headers` of the provider made of the headers."""
    certificate: bytes | None = field(default=None, repr=False)
    """Client certificate of the TLS connection in DER form, if its chain was verified."""
    peer: str = ""
    """Address of the client, for the audit log."""


@dataclass(frozen=True, slots=True)
class Authenticated:
    """Role that a provider found, until when."""

    role: str
    expires_ms: int | None = None
    """Wall-clock milliseconds at which the credentials expire; None: never."""


@dataclass(frozen=True, slots=True)
class Vouched:
    """Roles that the credentials of an HTTP request have proved."""

    principal: Principal
    expires_ms: int | None
    """Wall-clock milliseconds at which the credentials expire; None: never."""


class AuthenticationProvider(Protocol):
    """One method of authentication, made once at start from the configuration."""

    method: str
    """Name by which CONNECT chooses the provider."""
    is_slow: bool
    """True when `authenticate` may take longer than a millisecond (password hashes, requests): it runs in a thread."""

    def authenticate(self, credentials: Credentials, now_ms: int) -> Authenticated:
        """Returns the role. Raises AuthenticationError with a reason for the log that holds no secret."""

    def from_headers(self, headers: Mapping[str, str], certificate: bytes | None) -> bytes | None:
        """Returns the credentials of an HTTP request for `authenticate`; None when it has none for this method."""
