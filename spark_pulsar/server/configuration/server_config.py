"""Configuration of the broker process: ports, TLS, security, files, and the keys of `broker.conf` that set them.

Keys of the core (limits, defaults, switches) are in `broker.configuration.broker_config`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.configuration.keys import (
    ADDRESSES,
    CONNECTIONS,
    SECURITY,
    STORAGE,
    TLS,
    WEBSOCKETS,
    hosts,
    integer,
    mebibytes,
    names,
    natural,
    one_of,
    positive,
    seconds_or_zero,
    switch,
    times,
)

if TYPE_CHECKING:
    from spark_pulsar.broker.configuration.broker_config import (
        BrokerConfig,  # much to import for the command line's help
    )

_port: Final = integer(0, 65_535)


def _port_or_none(text: str) -> int | None:
    """Reads a port; empty: none."""
    return _port(text) if text else None


_segment_size: Final = times(1024 * 1024, integer(1, 2048))
"""MB as bytes; a position in a journal segment has 32 bits."""
TOKEN_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Algorithms of public keys that sign tokens."""


def _fallback(text: str) -> str:
    """Reads the mode of discovery for issuers that are not allowed by name."""
    if text != "DISABLED":
        raise ValueError(
            "want DISABLED; the broker does not discover issuers in Kubernetes, name them in openIDAllowedTokenIssuers"
        )
    return text


# A table, laid out as that of `BrokerConfig`.
# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Settings of one broker process, those of its core included."""

    bind_address: str = ADDRESSES.key(
        "bindAddress", str, "127.0.0.1", "SEC-40",
        "Address that all ports listen on: this machine's alone unless another is set, 0.0.0.0 for all of them.")
    port: int | None = ADDRESSES.key(
        "brokerServicePort", _port_or_none, 6650, "",
        "Port of the binary protocol; 0 chooses a free one, empty: none without TLS.", takes_empty=True)
    http_port: int | None = ADDRESSES.key(
        "webServicePort", _port_or_none, 8080, "",
        "Port of the admin API, health and metrics; 0 chooses a free one, empty: none without TLS.", takes_empty=True)
    allowed_hosts: tuple[str, ...] = ADDRESSES.key(
        "webServiceAllowedHosts", hosts, "", "T-25",
        "Hosts, separated by commas, whose web pages may change something over the admin API, beside this machine's "
        "names and the advertised address (ours). Programs are never refused.", unset=())
    data_dir: Path = STORAGE.key(  # noqa: RUF009 - makes a dataclass field
        "dataDirectory", Path, "data", "",
        "Directory of the journal, the ledger files and the checkpoint (ours).")
    journal_sync: bool = STORAGE.key(
        "journalSyncData", switch, True, "DUR-1, DUR-5",
        "Syncs the journal to the disk before a receipt; if not, a receipt means that the operating system has the "
        "message, which survives kill -9 but not power loss.")
    journal_segment_bytes: int = STORAGE.key(
        "journalMaxSizeMB", _segment_size, 64, "",
        "Size in MB of one preallocated journal segment.")
    connection_buffer_bytes: int = CONNECTIONS.key(
        "maxConnectionBufferSizeInMB", mebibytes, 128, "SEC-30",
        "MB of unfinished frames and of output that clients have not read, of all connections together (ours). Near "
        "it, connections that hold much are not read and get no messages; past it, those that hold most are closed.")
    max_connections: int = CONNECTIONS.key(
        "brokerMaxConnections", natural, 0, "SEC-24",
        "Connections of the binary protocol at a time; 0: no limit but that of open files.")
    max_connections_per_ip: int = CONNECTIONS.key(
        "brokerMaxConnectionsPerIp", natural, 0, "SEC-24",
        "Connections of the binary protocol from one address at a time; 0: no limit.")
    max_pending: int = CONNECTIONS.key(
        "maxPendingConnections", natural, 0, "SEC-25",
        "Connections of each port that may wait for their client's handshake, or for its request; of more, the one "
        "that has waited longest is closed. 0: half of those that open files allow, which is the most (ours).")
    max_pending_per_ip: int = CONNECTIONS.key(
        "maxPendingConnectionsPerIp", natural, 2048, "SEC-25",
        "The same for one address; 0: no limit of its own (ours).")
    http_max_head_bytes: int = CONNECTIONS.key(
        "httpMaxRequestHeaderSize", integer(1024, 1024 * 1024), 8192, "SEC-27",
        "Bytes of the line and the headers of an HTTP request.")
    log_lines_of_host: int = CONNECTIONS.key(
        "maxLogLinesPerHostPerMinute", natural, 30, "SEC-87",
        "Lines a minute of each log that one host may cause: refused logins, connections that end with an error; the "
        "rest is counted. 0: no limit (ours).")
    websocket_enabled: bool = WEBSOCKETS.key(
        "webSocketServiceEnabled", switch, True, "WS-1",
        "Serves the WebSocket API, /ws/v2/…, on the ports of the admin API.")
    websocket_max_text_bytes: int = WEBSOCKETS.key(
        "webSocketMaxTextFrameSize", integer(1024, 64 * 1024 * 1024), 1024 * 1024, "WS-9",
        "Bytes of a message of a WebSocket's client; one that sends more is closed (1009).")
    websocket_idle_ms: int = WEBSOCKETS.key(
        "webSocketSessionIdleTimeoutMillis", natural, 300_000, "WS-9",
        "Milliseconds without a frame either way after which a WebSocket is closed (1001); 0: never.")
    websocket_ping_s: int = WEBSOCKETS.key(
        "webSocketPingDurationSeconds", integer(-1, 1 << 31), -1, "WS-9",
        "Seconds between two PINGs to a WebSocket's client; 0 or -1: none.")
    authentication_providers: tuple[str, ...] = SECURITY.key(
        "authenticationProviders", names(), "", "AU-1, SEC-1",
        "Providers, separated by commas, of which a client chooses one by its method: token, basic, tls, openid, or "
        "Apache Pulsar's names of their classes.", unset=())
    anonymous_user_role: str = SECURITY.key(
        "anonymousUserRole", str, "", "AU-11",
        "Role of clients that show no credentials; empty: they are not let in.", unset="")
    authenticate_metrics_endpoint: bool = SECURITY.key(
        "authenticateMetricsEndpoint", switch, False, "AU-6, SEC-2",
        "Whether /metrics requires credentials, too.")
    token_secret_key: str = SECURITY.key(
        "tokenSecretKey", str, "", "AU-2, SEC-4",
        "Secret key of tokens (HS256, HS384, HS512): path or `file:` URL of its bytes, or the key in base64, alone "
        "or as a `data:;base64,` URL.", unset="", is_secret=True)
    token_public_key: str = SECURITY.key(
        "tokenPublicKey", str, "", "AU-2",
        "Public key of tokens (RS, PS, ES), in DER or PEM form, given in the same ways; the secret key counts alone "
        "when both are set.", unset="")
    token_public_algorithm: str = SECURITY.key(
        "tokenPublicAlg", one_of(TOKEN_ALGORITHMS), "RS256", "AU-2",
        "Algorithm of the public key, which names its kind: RSA keys take all RS and PS algorithms, a curve its own.")
    token_auth_claim: str = SECURITY.key(
        "tokenAuthClaim", str, "sub", "AU-2",
        "Claim of a token that names the role.", unset="sub")
    token_audience_claim: str = SECURITY.key(
        "tokenAudienceClaim", str, "", "AU-2",
        "Claim of a token that names its audiences, one of which must be tokenAudience; empty: it does not matter.",
        unset="")
    token_audience: str = SECURITY.key(
        "tokenAudience", str, "", "AU-2",
        "Name that this broker has in the claim of audiences.", unset="")
    token_clock_skew_ms: int = SECURITY.key(
        "tokenAllowedClockSkewSeconds", seconds_or_zero, 0, "AU-2",
        "Seconds that the clock of a token's issuer may differ.")
    basic_auth_conf: str = SECURITY.key(
        "basicAuthConf", str, "", "AU-4, SEC-21",
        "Users of basic authentication: path or `file:` URL of an htpasswd file (bcrypt, apr1, crypt), which is read "
        "again when it changes, or its text in base64, alone or as a `data:` URL.", unset="", is_secret=True)
    tls_port: int | None = TLS.key(
        "brokerServicePortTls", _port_or_none, "", "SEC-42",
        "Port of the binary protocol over TLS, beside the one without; 0 chooses a free one, empty: none.")
    tls_http_port: int | None = TLS.key(
        "webServicePortTls", _port_or_none, "", "SEC-42",
        "Port of the admin API over TLS, beside the one without; 0 chooses a free one, empty: none.")
    tls_certificate: Path | None = TLS.key(  # noqa: RUF009 - makes a dataclass field
        "tlsCertificateFilePath", Path, "", "SEC-42",
        "File of the broker's certificate, in PEM form with the chain up to the authority that clients trust.")
    tls_key: Path | None = TLS.key(  # noqa: RUF009 - makes a dataclass field
        "tlsKeyFilePath", Path, "", "SEC-42",
        "File of its private key, in PEM form without a password.")
    tls_trust_certs: Path | None = TLS.key(  # noqa: RUF009 - makes a dataclass field
        "tlsTrustCertsFilePath", Path, "", "SEC-43",
        "File of the authorities, in PEM form, that sign clients' certificates; empty: the broker requests none.")
    tls_protocols: tuple[str, ...] = TLS.key(
        "tlsProtocols", names(("TLSv1.2", "TLSv1.3")), "TLSv1.3,TLSv1.2", "SEC-42",
        "Versions of TLS, of TLSv1.2 and TLSv1.3.")
    tls_ciphers: tuple[str, ...] = TLS.key(
        "tlsCiphers", names(), "", "SEC-42",
        "Ciphers by their standard names or OpenSSL's, the first is preferred; empty: those with "
        "forward secrecy and authenticated encryption. TLS 1.3 is served if all three of its own are among them.",
        unset=())
    web_tls_protocols: tuple[str, ...] = TLS.key(
        "webServiceTlsProtocols", names(("TLSv1.2", "TLSv1.3")), "", "SEC-42",
        "Versions of TLS of the admin API; empty: those of tlsProtocols.", unset=())
    web_tls_ciphers: tuple[str, ...] = TLS.key(
        "webServiceTlsCiphers", names(), "", "SEC-42",
        "Ciphers of the admin API; empty: those of tlsCiphers.", unset=())
    tls_requires_client_certificate: bool = TLS.key(
        "tlsRequireTrustedClientCertOnConnect", switch, False, "SEC-43",
        "Refuses the handshake of a client that has no certificate of the trusted authorities, on both ports.")
    tls_allows_insecure: bool = TLS.key(
        "tlsAllowInsecureConnection", switch, False, "SEC-43",
        "Serves clients whatever certificate they have, which then says nothing about their role.")
    tls_refresh_s: int = TLS.key(
        "tlsCertRefreshCheckDurationSec", natural, 300, "SEC-44",
        "Seconds between two checks whether these files have changed; 0: they are read at the start alone.")

    openid_allowed_issuers: tuple[str, ...] = SECURITY.key(
        "openIDAllowedTokenIssuers", names(), "", "SEC-22",
        "Issuers, separated by commas, whose tokens OpenID Connect takes: URLs, as the claim `iss` has them.", unset=())
    openid_allowed_audiences: tuple[str, ...] = SECURITY.key(
        "openIDAllowedAudiences", names(), "", "SEC-22",
        "Audiences, separated by commas, one of which a token must be for.", unset=())
    openid_role_claim: str = SECURITY.key(
        "openIDRoleClaim", str, "sub", "SEC-22",
        "Claim of a token that is the role; of a list, its first text.")
    openid_leeway_seconds: int = SECURITY.key(
        "openIDAcceptedTimeLeewaySeconds", natural, 0, "SEC-22",
        "Seconds that the clocks of issuers may differ from the broker's.")
    openid_issuer_trust_certs: str = SECURITY.key(
        "openIDTokenIssuerTrustCertsFilePath", str, "", "SEC-22",
        "File of the authorities that sign the issuers' certificates (PEM); empty: those of the system.", unset="")
    openid_issuer_key_files: tuple[str, ...] = SECURITY.key(
        "openIDIssuerKeyFiles", names(), "", "SEC-23",
        "Files of keys (JWKS) of issuers that the broker does not query over the network, `ISSUER=FILE`, "
        "separated by commas; the broker reads them again when they change (ours).", unset=())
    openid_cache_refresh_seconds: int = SECURITY.key(
        "openIDCacheRefreshAfterWriteSeconds", positive, 64_800, "SEC-23",
        "Seconds after which the keys of an issuer are fetched again, while the old ones serve.")
    openid_cache_expiration_seconds: int = SECURITY.key(
        "openIDCacheExpirationSeconds", positive, 86_400, "SEC-23",
        "Seconds after which the keys of an issuer that could not be fetched again serve no more.")
    openid_unknown_key_seconds: int = SECURITY.key(
        "openIDKeyIdCacheMissRefreshSeconds", natural, 300, "SEC-23",
        "Least seconds between two fetches of an issuer's keys because a token names one that is not known.")
    openid_connect_timeout_ms: int = SECURITY.key(
        "openIDHttpConnectionTimeoutMillis", positive, 10_000, "SEC-23",
        "Milliseconds that connecting to an issuer may take.")
    openid_read_timeout_ms: int = SECURITY.key(
        "openIDHttpReadTimeoutMillis", positive, 10_000, "SEC-23",
        "Milliseconds that an issuer may take to answer.")
    openid_require_https: bool = SECURITY.key(
        "openIDRequireIssuersUseHttps", switch, True, "SEC-22",
        "Refuses issuers without https://.")
    openid_fallback_discovery: str = SECURITY.key(
        "openIDFallbackDiscoveryMode", _fallback, "DISABLED", "SEC-22",
        "Discovery of issuers that are not allowed by name; only DISABLED is supported.")

    with_parent: bool = False
    """Switch of the command line: the broker ends when standard input ends, as a child that must not outlive its parent
    does."""
    log_level: str = "INFO"
    """Least severity of the lines of the log, of the command line."""
    broker: BrokerConfig
    """Settings of the core."""
    unsupported_keys: tuple[str, ...] = ()
    """Keys of Apache Pulsar that were set and have no effect here."""
    unknown_keys: tuple[str, ...] = ()
    """Keys that were set and that neither broker knows."""
# fmt: on
