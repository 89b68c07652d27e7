"""Authentication by the client certificate of a TLS connection (AU-5). The broker's own certificates are loaded again
by `tls` (SEC-44), which requests those of clients (SEC-43)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from cryptography.x509 import load_der_x509_certificate
from cryptography.x509.oid import NameOID

from spark_pulsar.model.errors import AuthenticationError

from .provider import Authenticated

if TYPE_CHECKING:
    from typing import Self

    from spark_pulsar.server.configuration.server_config import ServerConfig

    from .provider import Credentials


class CertificateProvider:
    """Provider of the method `tls`: the common name of the certificate is the role."""

    method: Final = "tls"
    is_slow: Final = False

    @classmethod
    def from_config(cls, config: ServerConfig) -> Self:
        """Makes the provider; certificates are verified by the TLS connection, with its own keys."""
        del config
        return cls()

    def authenticate(self, credentials: Credentials, now_ms: int) -> Authenticated:
        """Returns the common name of the client certificate, that nearest to the client when there are several.
        Apache Pulsar does not check its end again while the connection lives, nor does this provider."""
        del now_ms
        if credentials.certificate is None:
            raise AuthenticationError("no client certificate")
        try:
            names = load_der_x509_certificate(credentials.certificate).subject.get_attributes_for_oid(
                NameOID.COMMON_NAME
            )
            role = next((str(name.value) for name in reversed(names) if name.value), "")
        except ValueError:
            raise AuthenticationError("a client certificate that cannot be read") from None
        if not role:
            raise AuthenticationError("a client certificate without a common name")
        return Authenticated(role)

    def from_headers(self, headers: Mapping[str, str], certificate: bytes | None) -> bytes | None:
        """Returns no data, but something, for a request with a client certificate."""
        del headers
        return None if certificate is None else b""
