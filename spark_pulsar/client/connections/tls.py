"""TLS: which certificates are trusted, and which one is shown to the broker."""

import ssl
from dataclasses import dataclass

from spark_pulsar.client.errors import TlsError


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """The TLS settings of a client, under the names of Pulsar's; files are in PEM format.

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

    def __post_init__(self) -> None:
        if bool(self.certificate_file_path) != bool(self.key_file_path):
            raise ValueError("a client certificate needs both tlsCertificateFilePath and tlsKeyFilePath")

    def context(self) -> ssl.SSLContext:
        """Returns the settings for one connection. Files are read anew each time, since certificates are renewed.

        Raises TlsError for a file that is missing or holds something else.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # In the middle of one a writer would have to wait for the reader, which may be held back.
        context.options |= ssl.OP_NO_RENEGOTIATION
        if self.allow_insecure_connection:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            context.check_hostname = self.hostname_verification_enable
            self._trust(context)
        if self.certificate_file_path:
            self._show_certificate(context)
        return context

    def _trust(self, context: ssl.SSLContext) -> None:
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
