"""Access to a broker from the command line: address, credentials and TLS, of options, a profile, variables,
`client.conf` and defaults, in this order (SEC-82).

Plugins and certificates are those of the connector's client; here they become headers of HTTP requests and settings of
the official client.
"""

from __future__ import annotations

import base64
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import typer

from spark_pulsar.cli.access.client_conf import BROKER_URLS, WEB_URLS, ClientConf, read_client_conf
from spark_pulsar.cli.access.options import DEFAULT_ADMIN_URL, DEFAULT_SERVICE_URL, AccessOptions
from spark_pulsar.cli.access.profiles import profile_of
from spark_pulsar.client.authentication.credentials import Credentials
from spark_pulsar.client.authentication.plugins import Authentication
from spark_pulsar.client.connections.config import own_certificate
from spark_pulsar.client.connections.service_url import without_user
from spark_pulsar.client.connections.tls import TlsConfig
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import CredentialsError
from spark_pulsar.client.secret import Secret
from spark_pulsar.model.errors import PulsarError

CREDENTIALS_TIMEOUT_MS: Final = 20_000
TRUST_HINT: Final = "authorities to trust are given by --tls-trust-cert-path"
_BROKER_SCHEMES: Final = ("pulsar://", "pulsar+ssl://", "http://", "https://")
"""Schemes of a service URL; the last two look topics up over HTTP."""
_SECURE: Final = ("https://", "pulsar+ssl://")


@dataclass(frozen=True, slots=True)
class Access:
    """The address of a broker, and the proof of the caller's role. Shows no secret."""

    url: str
    authentication: Authentication
    tls: TlsConfig
    """Settings of TLS, with the client's own certificate if it has one."""
    listener_name: str = ""

    @property
    def uses_tls(self) -> bool:
        """Returns whether the address is one of TLS."""
        return self.url.startswith(_SECURE)

    def tls_context(self) -> ssl.SSLContext | None:
        """Returns the settings of TLS for a connection, None without. Raises TlsError."""
        return self.tls.context() if self.uses_tls else None

    def headers(self) -> dict[str, str]:
        """Returns the headers of an HTTP request that name the caller. Raises CredentialsError."""
        credentials = self.authentication.credentials()
        shown = self._shown(credentials)
        if credentials.method == "none":
            return {}
        method = {"X-Pulsar-Auth-Method-Name": credentials.method}
        if shown is None:
            return method
        kind, text = ("Bearer", shown) if credentials.method == "token" else ("Basic", base64.b64encode(shown))
        return {"Authorization": f"{kind} {text.decode()}"} | method

    def client_settings(self) -> dict[str, Any]:
        """Returns the settings of `pulsar.Client` beside its address. Raises CredentialsError."""
        import pulsar

        settings: dict[str, Any] = {"listener_name": self.listener_name} if self.listener_name else {}
        if self.uses_tls:
            trusted = self.tls.trust_certs_file_path or ssl.get_default_verify_paths().cafile
            settings["tls_trust_certs_file_path"] = trusted
            settings["tls_allow_insecure_connection"] = self.tls.allow_insecure_connection
            settings["tls_validate_hostname"] = (
                self.tls.hostname_verification_enable and not self.tls.allow_insecure_connection
            )
        certificate = (self.tls.certificate_file_path, self.tls.key_file_path)
        credentials = self.authentication.credentials()
        shown = self._shown(credentials)
        if credentials.method == "tls":
            settings["authentication"] = pulsar.AuthenticationTLS(*certificate)
        elif certificate[0]:
            settings["tls_certificate_file_path"], settings["tls_private_key_file_path"] = certificate
        if shown is not None and credentials.method == "basic":
            user, _, password = shown.decode().partition(":")
            settings["authentication"] = pulsar.AuthenticationBasic(user, password)
        elif shown is not None:
            settings["authentication"] = pulsar.AuthenticationToken(lambda: self._token(credentials, shown))
        return settings

    def _token(self, credentials: Credentials, last: bytes) -> str:
        """Requests the token of a connection; an error may not leave this call, which the client's own thread makes."""
        try:
            return (self._shown(credentials) or last).decode()
        except PulsarError:
            return last.decode()  # the broker says what is wrong with it

    def _shown(self, credentials: Credentials) -> bytes | None:
        return credentials.data(Deadline(CREDENTIALS_TIMEOUT_MS, "requesting credentials", self.url))

    @property
    def hint(self) -> str:
        """Advice for a user whom the broker refuses."""
        if not self.authentication.plugin:
            given_by = "--auth-plugin and --auth-params, or authPlugin and authParams of client.conf"
            return f"no credentials were given: {given_by}"
        return f"the broker does not accept the credentials of --auth-plugin {self.authentication.plugin}"


def admin_access(options: AccessOptions) -> Access:
    """Resolves the access to the admin API. Raises typer.BadParameter."""
    profile = profile_of(options)
    filled = profile.fill(options, profile.admin_url)
    conf = read_client_conf(filled.client_conf)
    url = filled.url or os.environ.get("PULSAR_ADMIN_URL") or conf.text(*WEB_URLS) or DEFAULT_ADMIN_URL
    return _access(check_admin_url(url), options, filled, conf)


def broker_access(options: AccessOptions) -> Access:
    """Resolves the access over the binary protocol. Raises typer.BadParameter."""
    profile = profile_of(options)
    filled = profile.fill(options, profile.service_url)
    conf = read_client_conf(filled.client_conf)
    url = filled.url or os.environ.get("PULSAR_SERVICE_URL") or conf.text(*BROKER_URLS) or DEFAULT_SERVICE_URL
    return _access(_with_scheme(url, _BROKER_SCHEMES, "--service-url"), options, filled, conf)


def check_admin_url(text: str) -> str:
    """Returns the URL of an admin API. Raises typer.BadParameter."""
    return _check_no_user(_with_scheme(text, ("http://", "https://"), "--admin-url"))


def check_service_url(text: str) -> str:
    """Returns the URL of a broker. Raises typer.BadParameter."""
    return _check_no_user(_with_scheme(text, _BROKER_SCHEMES[:2], "--service-url"))


def _with_scheme(text: str, schemes: Sequence[str], option: str) -> str:
    url = text.strip().rstrip("/")
    if not url.startswith(tuple(schemes)):
        hint = "" if "://" in url else f"; try {schemes[0]}{url}"
        raise typer.BadParameter(f"want {schemes[0]}HOST:PORT, got {url!r}{hint}", param_hint=option)
    return url


def _check_no_user(url: str) -> str:
    if "@" in url:
        raise typer.BadParameter(
            f"{without_user(url)}: a user and a password do not belong there; they are given by --auth-plugin basic"
        )
    return url


def _access(url: str, given: AccessOptions, options: AccessOptions, conf: ClientConf) -> Access:
    """Makes the access of the options that were given, filled with those of a profile, and of `client.conf`."""
    _check_no_user(url)
    of_tls = [
        name
        for name, value in (
            ("--tls-trust-cert-path", given.tls_trust_cert_path),
            ("--tls-allow-insecure", given.tls_allow_insecure),
            ("--tls-enable-hostname-verification", given.tls_enable_hostname_verification),
        )
        if value
    ]
    if of_tls and not url.startswith(_SECURE):
        raise typer.BadParameter(f"{of_tls[0]} needs TLS: https:// or pulsar+ssl://, which {url} is not")
    insecure = _first(options.tls_allow_insecure, conf.switch("tlsAllowInsecureConnection"), False)
    verify = _first(options.tls_enable_hostname_verification, conf.switch("tlsEnableHostnameVerification"), True)
    try:
        authentication = _authentication(options, conf)
        tls = TlsConfig(
            trust_certs_file_path=str(options.tls_trust_cert_path or conf.text("tlsTrustCertsFilePath")),
            hostname_verification_enable=verify,
            allow_insecure_connection=insecure,
            certificate_file_path=conf.text("tlsCertificateFilePath"),
            key_file_path=conf.text("tlsKeyFilePath"),
        )
    except (ValueError, PulsarError) as error:
        raise typer.BadParameter(str(error)) from None
    tls = own_certificate(tls, authentication)
    if authentication.is_by_certificate and not (tls.certificate_file_path and url.startswith(_SECURE)):
        raise typer.BadParameter(
            "--auth-plugin tls needs an address of TLS and a certificate: --auth-params "
            "tlsCertFile:PATH,tlsKeyFile:PATH, or tlsCertificateFilePath and tlsKeyFilePath of client.conf"
        )
    return Access(url, authentication, tls, options.listener_name or conf.text("listenerName"))


def _authentication(options: AccessOptions, conf: ClientConf) -> Authentication:
    plugin = options.auth_plugin or conf.text("authPlugin")
    params = conf.text("authParams") if options.auth_params is None else options.auth_params
    where = "--auth-params" if options.auth_params else f"authParams of {conf.path}"
    if params and not plugin:
        raise ValueError(f"{where}: for which plugin? Give --auth-plugin token, basic, tls or oauth2")
    try:
        made = Authentication(plugin, Secret(params))
        if made.credentials().method != "tls" or params:
            return made
    except ValueError as error:
        missing = "" if params else " (none were given)"
        raise ValueError(f"{where if params else '--auth-params'} of the plugin {plugin}{missing}: {error}") from None
    return made


def credentials_failure(error: CredentialsError) -> str:
    """Says of credentials that cannot be had where they are set."""
    return f"{error}; credentials are set by --auth-params, or authParams of client.conf"


def _first(*values: bool | None) -> bool:
    return next(value for value in values if value is not None)
