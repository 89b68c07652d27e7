"""TLS: which certificates are trusted, and which one is shown to the broker."""

import ssl
from dataclasses import dataclass
from typing import Final

from spark_pulsar.client.errors import TlsError
from spark_pulsar.client.key_stores import KeyStore

PROTOCOLS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""Versions of TLS that connections may have, by Java's names."""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """The TLS settings of a client, under the names of Pulsar's; files are in PEM format, or key stores of Java
    (SEC-89: `client.key_stores`).

    Creating one raises ValueError for settings that contradict each other.
    """

    trust_certs_file_path: str = ""
    """Certificates of the authorities that are trusted; empty: those of the system."""
    hostname_verification_enable: bool = True
    """The broker's certificate must name the host that was connected to."""
    allow_insecure_connection: bool = False
    """Any certificate is accepted, for any host."""
    certificate_file_path: str = ""
    """The client's own certificate, shown to brokers that request one, with the chain behind it."""
    key_file_path: str = ""
    """The private key of the certificate, not encrypted."""
    trust_store: KeyStore | None = None
    """The store of the authorities that are trusted, in place of `trust_certs_file_path`."""
    key_store: KeyStore | None = None
    """The store of the client's own certificate and key, in place of their files."""
    protocols: tuple[str, ...] = tuple(PROTOCOLS)
    """Names of the versions of TLS that are allowed."""

    def __post_init__(self) -> None:
        if bool(self.certificate_file_path) != bool(self.key_file_path):
            raise ValueError("a client certificate needs both tlsCertificateFilePath and tlsKeyFilePath")
        if not self.protocols or not set(self.protocols) <= PROTOCOLS.keys():
            raise ValueError(f"expected versions of TLS out of {', '.join(PROTOCOLS)}, not {', '.join(self.protocols)}")

    @property
    def shows_certificate(self) -> bool:
        """Returns whether the client has a certificate of its own."""
        return bool(self.certificate_file_path) or self.key_store is not None

    def context(self) -> ssl.SSLContext:
        """Returns the settings for one connection. Files are read anew each time, since certificates are renewed.

        Raises TlsError for a file that is missing or holds something else.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = min(PROTOCOLS[name] for name in self.protocols)
        context.maximum_version = max(PROTOCOLS[name] for name in self.protocols)
        # In the middle of one a writer would have to wait for the reader, which may be held back.
        context.options |= ssl.OP_NO_RENEGOTIATION
        if self.allow_insecure_connection:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            context.check_hostname = self.hostname_verification_enable
            self._trust(context)
        if self.key_store is not None:
            self.key_store.show(context)
        elif self.certificate_file_path:
            self._show_certificate(context)
        return context

    def _trust(self, context: ssl.SSLContext) -> None:
        if self.trust_store is not None:
            self.trust_store.trust(context)
            return
        if not self.trust_certs_file_path:
            context.load_default_certs()
            return
        try:
            context.load_verify_locations(cafile=self.trust_certs_file_path)
        except OSError as error:  # ssl.SSLError is one
            path = self.trust_certs_file_path
            raise TlsError(f"tlsTrustCertsFilePath {path!r} is no readable file of certificates: {error}") from error

    def _show_certificate(self, context: ssl.SSLContext) -> None:
        try:
            # Without a password OpenSSL would prompt for one at the terminal.
            context.load_cert_chain(self.certificate_file_path, self.key_file_path, password=lambda: b"")
        except OSError as error:
            raise TlsError(
                f"tlsCertificateFilePath {self.certificate_file_path!r} with tlsKeyFilePath {self.key_file_path!r} "
                f"is no readable certificate with its key (PEM, not encrypted): {error}"
            ) from error
