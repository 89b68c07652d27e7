"""The configuration of a client: the service's address, its security and the time-outs."""

import ssl
from dataclasses import dataclass, replace
from typing import Final

from spark_pulsar.client.authentication.plugins import Authentication
from spark_pulsar.client.connections.service_url import Address, parse_service_url, uses_tls
from spark_pulsar.client.connections.tls import TlsConfig

LONGEST_ANSWER_MS: Final = 30_000
DEFAULT_SUBSCRIPTION_PREFIX: Final = "spark-pulsar-reader"
_NO_AUTHENTICATION: Final = Authentication()
_DEFAULT_TLS: Final = TlsConfig()


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """All settings of a client: immutable, hashable and picklable, so that it can be the key of a cache.

    Creating one checks every value and raises InvalidServiceUrl, NotSupportedByClient or ValueError.
    """

    service_url: str
    """`pulsar://host[:port][,host[:port]…]` or `pulsar+ssl://…`; with several hosts the next is tried when one cannot
    be reached."""
    connect_timeout_ms: int = 10_000
    """Time-out for TCP and the handshake of one connection."""
    operation_timeout_ms: int = 30_000
    """Time-out for one operation with all its retries; also the longest wait for the next receipt or promised entry."""
    keep_alive_interval_ms: int = 30_000
    """A PING is sent this often; a peer that sent nothing for two intervals is dead."""
    authentication: Authentication = _NO_AUTHENTICATION
    """The proof of who the client is."""
    tls: TlsConfig = _DEFAULT_TLS
    """Settings of TLS, for `pulsar+ssl://`."""
    listener_name: str = ""
    """The listener whose addresses brokers return in lookups; empty: their default."""
    sni_proxy_url: str = ""
    """`pulsar+ssl://host[:port]` of a proxy to which all connections go, and which distinguishes brokers by the name in
    the TLS handshake (SNI)."""
    subscription_prefix: str = DEFAULT_SUBSCRIPTION_PREFIX
    """Begin of the names of the non-durable subscriptions that readers have. A namespace may demand that subscriptions
    are named after the role (`subscriptionAuthMode`)."""

    def __post_init__(self) -> None:
        parse_service_url(self.service_url)
        if self.authentication.is_by_certificate:
            if not self.uses_tls:
                raise ValueError("authentication by a certificate needs TLS: a service URL pulsar+ssl://host:6651")
            tls = (self.tls.certificate_file_path, self.tls.key_file_path)
            if any(tls) and self.authentication.certificate not in (None, tls):
                raise ValueError(
                    "authParams name another certificate than tlsCertificateFilePath and tlsKeyFilePath: "
                    "give one of them"
                )
            if not self._own_certificate.shows_certificate:
                raise ValueError(
                    "authentication by a certificate needs one: authParams tlsCertFile:PATH,tlsKeyFile:PATH, for a key "
                    "store keyStoreType:JKS,keyStorePath:PATH,keyStorePassword:TEXT"
                )
        if self.sni_proxy_url:
            if not self.uses_tls:
                raise ValueError("a proxy that routes by SNI needs TLS: a service URL pulsar+ssl://host:6651")
            if len(parse_service_url(self.sni_proxy_url)) > 1:
                raise ValueError("one address of a proxy is expected, not several")
        for name in ("connect_timeout_ms", "operation_timeout_ms", "keep_alive_interval_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, not {getattr(self, name)}")

    @property
    def answer_timeout_ms(self) -> int:
        """Time-out for the answer to one request, which is then made again.

        Half of the operation at most: a single lost request must not cost the whole of it.
        """
        return max(1, min(LONGEST_ANSWER_MS, self.operation_timeout_ms // 2))

    @property
    def uses_tls(self) -> bool:
        """Returns whether connections are encrypted."""
        return uses_tls(self.service_url)

    @property
    def _own_certificate(self) -> TlsConfig:
        return own_certificate(self.tls, self.authentication)

    def tls_context(self) -> ssl.SSLContext | None:
        """Returns the settings of TLS for one connection, None without TLS. Raises TlsError."""
        return self._own_certificate.context() if self.uses_tls else None

    @property
    def sni_proxy(self) -> Address | None:
        """The address of the proxy that routes by SNI, if there is one."""
        return parse_service_url(self.sni_proxy_url)[0] if self.sni_proxy_url else None

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The service's addresses in the order of the URL."""
        return parse_service_url(self.service_url)


def own_certificate(tls: TlsConfig, authentication: Authentication) -> TlsConfig:
    """Returns the settings of TLS with the certificate that the authentication names, if it does."""
    files = authentication.certificate
    if authentication.key_store is not None:
        return replace(tls, key_store=authentication.key_store, certificate_file_path="", key_file_path="")
    if files is None:
        return tls
    return replace(tls, certificate_file_path=files[0], key_file_path=files[1])
