"""TLS of the broker's ports: a context made from the configured files, and made anew when they change (SEC-42, SEC-44).
Handshakes are bounded in `connections.tls_connection` (SEC-45). The role of a client certificate is read by
`tls_certificates` (AU-5).

A context is never altered once it is in use: connections live on with the one of their handshake.
"""

from __future__ import annotations

import logging
import re
import ssl
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from spark_pulsar.server.configuration.server_config import ServerConfig

PROTOCOLS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
"""Versions that `tlsProtocols` may name; older ones are broken."""
_NEWEST: Final = "TLSv1.3"
_CIPHERS_OF_OLDER: Final = "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:!aDSS"
"""Ciphers of TLS 1.2 where none are configured: with forward secrecy and authenticated encryption (SEC-42)."""
_CIPHERS_OF_NEWEST: Final = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
_CERTIFICATE: Final = re.compile(rb"-----BEGIN (TRUSTED |X509 )?CERTIFICATE-----")
_KEY: Final = re.compile(rb"-----BEGIN ([A-Z]+ )?PRIVATE KEY-----")
_LOG = logging.getLogger("spark_pulsar.server")


class TlsNotPossible(OSError):
    """Key of the configuration that TLS cannot be served with; the text names the key, its value and the reason."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Settings of TLS, as the configuration has them."""

    certificate: Path | None
    key: Path | None
    trust_certs: Path | None
    protocols: tuple[str, ...] = tuple(PROTOCOLS)
    ciphers: tuple[str, ...] = ()
    requires_client_certificate: bool = False
    allows_insecure: bool = False

    keys: str = "tls"
    """Beginning of the keys that name protocols and ciphers."""

    @classmethod
    def of_web(cls, config: ServerConfig) -> TlsSettings:
        """Takes the settings of the admin API out of a configuration."""
        own = cls.of(config)
        protocols = config.web_tls_protocols or own.protocols
        if not config.web_tls_ciphers:
            return replace(own, protocols=protocols)
        return replace(own, protocols=protocols, ciphers=config.web_tls_ciphers, keys="webServiceTls")

    @classmethod
    def of(cls, config: ServerConfig) -> TlsSettings:
        """Takes the settings of the binary protocol out of a configuration."""
        return cls(
            certificate=config.tls_certificate,
            key=config.tls_key,
            trust_certs=config.tls_trust_certs,
            protocols=config.tls_protocols,
            ciphers=config.tls_ciphers,
            requires_client_certificate=config.tls_requires_client_certificate,
            allows_insecure=config.tls_allows_insecure,
        )


class TlsContexts:
    """The contexts of new handshakes. Raises TlsNotPossible when the first ones cannot be made."""

    def __init__(self, binary: TlsSettings, web: TlsSettings | None = None) -> None:
        self._settings = binary, web or binary
        self._seen = _contents(binary)
        self.binary, self.web = self._make()

    def _make(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        binary, web = self._settings
        context = make_context(binary)
        return context, context if web == binary else make_context(web)

    def reload(self) -> None:
        """Makes new contexts if the content of a file has changed. Files with which none can be made leave the old ones
        in use, and an error in the log."""
        settings = self._settings[0]
        seen = _contents(settings)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.binary, self.web = self._make()
        except TlsNotPossible as error:
            _LOG.error("the certificate in use stays, since the changed files cannot be used: %s", error)
        else:
            _LOG.info("new handshakes use the changed certificate %s", settings.certificate)


def _contents(settings: TlsSettings) -> list[bytes]:
    """Reads the files; one that cannot be read counts as empty."""
    contents = []
    for path in (settings.certificate, settings.key, settings.trust_certs):
        try:
            contents.append(b"" if path is None else path.read_bytes())
        except OSError:
            contents.append(b"")
    return contents


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """Makes the context of a server. Raises TlsNotPossible."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Each handshake verifies the client's certificate and finds the certificate of now, so that none is resumed.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    context.set_alpn_protocols(["http/1.1"])
    protocols = _set_ciphers(context, settings)
    context.minimum_version = min(PROTOCOLS[name] for name in protocols)
    context.maximum_version = max(PROTOCOLS[name] for name in protocols)
    _load_certificate(context, settings)
    _verify_clients(context, settings)
    return context


def _load_certificate(context: ssl.SSLContext, settings: TlsSettings) -> None:
    certificate = _checked("tlsCertificateFilePath", settings.certificate, _CERTIFICATE, "certificate")
    key = _checked("tlsKeyFilePath", settings.key, _KEY, "private key")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(certificate)
    except ssl.SSLError as error:
        raise _refused(
            "tlsCertificateFilePath", certificate, f"the certificate is damaged ({_reason(error)})"
        ) from error
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"the key does not fit the certificate tlsCertificateFilePath={certificate}"
        else:
            text = f"the key cannot be used ({_reason(error)})"
        raise _refused("tlsKeyFilePath", key, text) from error


def _checked(name: str, path: Path | None, wanted: re.Pattern[bytes], what: str) -> Path:
    """Returns the path of a file that holds the wanted object in PEM."""
    if path is None:
        raise TlsNotPossible(f"{name} is not set; a port with TLS needs it")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _refused(name, path, error.strerror or str(error)) from error
    if b"PRIVATE KEY" in content and what == "private key" and b"ENCRYPTED" in content:
        raise _refused(name, path, "the key is encrypted; the broker has no password for it")
    if wanted.search(content) is None:
        raise _refused(name, path, f"there is no {what} in PEM form in it")
    return path


def _verify_clients(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Requests a certificate from clients if there are authorities that could have signed one (SEC-43)."""
    context.check_hostname = False
    if settings.requires_client_certificate and settings.allows_insecure:
        raise TlsNotPossible(
            "tlsRequireTrustedClientCertOnConnect=true: contradicts tlsAllowInsecureConnection=true, with which no "
            "certificate is verified"
        )
    if settings.trust_certs is None:
        if settings.requires_client_certificate:
            raise TlsNotPossible("tlsRequireTrustedClientCertOnConnect=true: needs tlsTrustCertsFilePath")
        return
    path = _checked("tlsTrustCertsFilePath", settings.trust_certs, _CERTIFICATE, "certificate")
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise _refused("tlsTrustCertsFilePath", path, f"a certificate is damaged ({_reason(error)})") from error
    if not settings.allows_insecure:
        # As in Java, every certificate of the file is trusted, not only those that signed themselves.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_mode = ssl.CERT_REQUIRED if settings.requires_client_certificate else ssl.CERT_OPTIONAL


def _set_ciphers(context: ssl.SSLContext, settings: TlsSettings) -> list[str]:
    """Sets the ciphers, and returns the protocols that have one."""
    protocols = list(settings.protocols)
    if not settings.ciphers:
        context.set_ciphers(_CIPHERS_OF_OLDER)
        return protocols
    newest = _CIPHERS_OF_NEWEST.intersection(settings.ciphers)
    older = [name for name in settings.ciphers if name not in newest]
    text = f"{settings.keys}Ciphers={','.join(settings.ciphers)}"
    if newest and newest != _CIPHERS_OF_NEWEST:
        raise TlsNotPossible(f"{text}: TLS 1.3 has all of its ciphers here or none: {', '.join(sorted(newest))} alone")
    if older:
        every = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        every.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
        known = {cipher["name"] for cipher in every.get_ciphers()}
        for name in older:
            if openssl_name(name) not in known:
                raise TlsNotPossible(f"{text}: there is no cipher {name}")
        context.set_ciphers(":".join(openssl_name(name) for name in older))
    protocols = [name for name in protocols if (newest if name == _NEWEST else older)]
    if not protocols:
        raise TlsNotPossible(f"{text}: none is of the protocols {', '.join(settings.protocols)}")
    return protocols


def openssl_name(cipher: str) -> str:
    """Returns OpenSSL's name of a cipher of TLS 1.2, for its standard name as Java has it:
    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256."""
    if not cipher.startswith("TLS_") or "_WITH_" not in cipher:
        return cipher
    exchange, _, rest = cipher.removeprefix("TLS_").partition("_WITH_")
    rest = re.sub(r"^(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", rest).replace("_CBC_", "_")
    rest = rest.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    name = rest if exchange == "RSA" else f"{exchange}_{rest}"
    return name.replace("_", "-")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()


def _refused(name: str, path: Path, reason: str) -> TlsNotPossible:
    return TlsNotPossible(f"{name}={path}: {reason}")
