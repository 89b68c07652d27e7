"""Options of all commands that talk to a broker: its address, credentials and TLS, by the names of pulsar-admin
(SEC-82)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

import typer

from spark_pulsar.cli.values import ACCESS_PANEL, LogLevel

DEFAULT_ADMIN_URL: Final = "http://127.0.0.1:8080"
DEFAULT_SERVICE_URL: Final = "pulsar://127.0.0.1:6650"
AuthPlugin = Annotated[
    str | None,
    typer.Option(
        "--auth-plugin",
        help="Authentication: token, basic, tls, oauth2, or the class of a Java plugin.",
        rich_help_panel=ACCESS_PANEL,
    ),
]
AuthParams = Annotated[
    str | None,
    typer.Option(
        "--auth-params",
        help="Its parameters: token:TEXT, file:///PATH, env:NAME, JSON, or name:value,name:value.",
        rich_help_panel=ACCESS_PANEL,
    ),
]
TrustCerts = Annotated[
    Path | None,
    typer.Option(
        "--tls-trust-cert-path",
        "--tlsTrustCertsFilePath",
        dir_okay=False,
        help="Certificates of the authorities to trust (PEM); those of the system if not given.",
        rich_help_panel=ACCESS_PANEL,
    ),
]
AllowInsecure = Annotated[
    bool | None,
    typer.Option(
        "--tls-allow-insecure/--no-tls-allow-insecure",
        help="Accept any certificate.",
        show_default=False,
        rich_help_panel=ACCESS_PANEL,
    ),
]
VerifyHostname = Annotated[
    bool | None,
    typer.Option(
        "--tls-enable-hostname-verification/--no-tls-enable-hostname-verification",
        help="The certificate must name the host; yes if not given.",
        show_default=False,
        rich_help_panel=ACCESS_PANEL,
    ),
]
ClientConf = Annotated[
    Path | None,
    typer.Option(
        "--client-conf",
        exists=True,
        dir_okay=False,
        help="File with the rest, as Pulsar's client.conf; $PULSAR_CLIENT_CONF, or conf/client.conf if it is there.",
        rich_help_panel=ACCESS_PANEL,
    ),
]
Log = Annotated[
    LogLevel | None,
    typer.Option(
        "--log-level",
        help="Print the client's log on standard error, from this severity on.",
        case_sensitive=False,
        show_default=False,
        rich_help_panel=ACCESS_PANEL,
    ),
]
ListenerName = Annotated[
    str | None,
    typer.Option(
        "--listener-name",
        help="Advertised listener of the broker whose addresses to use.",
        rich_help_panel=ACCESS_PANEL,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessOptions:
    """Options of one command as they were given; None: read the profile, the environment and `client.conf`."""

    url: str | None = None
    auth_plugin: str | None = None
    auth_params: str | None = field(default=None, repr=False)
    tls_trust_cert_path: Path | None = None
    tls_allow_insecure: bool | None = None
    tls_enable_hostname_verification: bool | None = None
    client_conf: Path | None = None
    listener_name: str | None = None
    profile: str | None = None
    log_level: LogLevel | None = None
