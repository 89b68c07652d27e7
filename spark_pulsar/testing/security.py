"""A secured broker process: its keys and certificates, and the options of the clients that may use it (SEC-84)."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from spark_pulsar.cli.tokens.keys import make_token, needing_security, new_secret_key, write_secret_file
from spark_pulsar.client.secret import Secret
from spark_pulsar.testing.certificates import Authority

ADMIN_ROLE: Final = "admin"
"""Super user of a broker with tokens."""
_PROVIDER: Final = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"
_PLUGIN: Final = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
_ALGORITHM: Final = "HS256"
_WILDCARDS: Final = ("0.0.0.0", "::", "")


@dataclass(frozen=True, slots=True)
class RoleAccess:
    """Access of one role to a broker process: the options of each kind of client. Shows no token by itself."""

    service_url: str
    admin_url: str
    client_conf_path: Path
    """File for `spark-pulsar admin --client-conf`, and for `pulsar-admin` and `pulsar-client`; it names the token's."""
    trust_certs_path: Path | None = None
    """Certificate of the authority to trust (PEM), None without TLS."""
    token_path: Path | None = None
    """File with the role's token, None without tokens."""
    _token: Secret = Secret("")  # noqa: RUF009 - a constant

    @property
    def token(self) -> str:
        """The role's token, empty without tokens."""
        return self._token.reveal()

    @property
    def client_options(self) -> dict[str, Any]:
        """Arguments of the official client: `pulsar.Client(**options)`."""
        options: dict[str, Any] = {"service_url": self.service_url}
        if self.trust_certs_path is not None:
            options["tls_trust_certs_file_path"] = str(self.trust_certs_path)
            options["tls_validate_hostname"] = True
        if self._token:
            import pulsar

            options["authentication"] = pulsar.AuthenticationToken(self.token)
        return options

    @property
    def spark_options(self) -> dict[str, str]:
        """Options of `format("pulsar")`, which name the token's file."""
        options = {"service.url": self.service_url}
        if self.trust_certs_path is not None:
            options["pulsar.client.tlsTrustCertsFilePath"] = str(self.trust_certs_path)
        if self.token_path is not None:
            options["pulsar.client.authPluginClassName"] = _PLUGIN
            options["pulsar.client.authParams"] = self.token_path.as_uri()
        return options

    @property
    def admin_headers(self) -> dict[str, str]:
        """Headers of requests to `admin_url`."""
        return {"Authorization": f"Bearer {self.token}"} if self._token else {}

    def tls_context(self) -> ssl.SSLContext | None:
        """Returns the settings of TLS for requests to `admin_url`, None without TLS."""
        return None if self.trust_certs_path is None else ssl.create_default_context(cafile=str(self.trust_certs_path))


class ProcessSecurity:
    """Keys and certificates of one broker process, made in a directory of its own."""

    def __init__(self, directory: Path, host: str, *, token: bool, tls: bool) -> None:
        self._directory = directory
        self.conf: dict[str, str] = {}
        """Keys of `broker.conf` that secure the broker."""
        directory.mkdir(mode=0o700)
        self._authority = Authority(directory) if tls else None
        self._key = new_secret_key(_ALGORITHM) if token else b""
        if token:
            with needing_security():
                import jwt  # noqa: F401 - says what is missing before the broker starts
            write_secret_file(directory / "secret.key", self._key)
            self.conf |= {
                "authenticationEnabled": "true",
                "authenticationProviders": _PROVIDER,
                "tokenSecretKey": (directory / "secret.key").as_uri(),
                "authorizationEnabled": "true",
                "superUserRoles": ADMIN_ROLE,
            }
        if self._authority is not None:
            hosts = dict.fromkeys(("localhost", "127.0.0.1", "::1", socket.gethostname(), host))
            certificate, key = self._authority.issue("broker", tuple(name for name in hosts if name not in _WILDCARDS))
            self.conf |= {
                "brokerServicePort": "",
                "webServicePort": "",
                "tlsCertificateFilePath": str(certificate),
                "tlsKeyFilePath": str(key),
                "tlsTrustCertsFilePath": str(self._authority.path),
            }

    @property
    def has_tokens(self) -> bool:
        """Returns whether clients need a token."""
        return bool(self._key)

    @property
    def has_tls(self) -> bool:
        """Returns whether the broker listens with TLS alone."""
        return self._authority is not None

    def token(self, role: str, lifetime_s: int | None = None) -> str:
        """Makes a token of a role, good for ever if no lifetime is given."""
        if not self._key:
            raise RuntimeError("this broker takes no tokens: start it with broker_process(token=True)")
        if not role:
            raise ValueError("a token needs the name of a role")
        return make_token(role, self._key, _ALGORITHM, lifetime_s)

    def certificate(self, role: str) -> tuple[Path, Path]:
        """Makes a client's certificate with a role as its common name; returns the files of it and of its key."""
        if self._authority is None:
            raise RuntimeError("this broker has no TLS: start it with broker_process(tls=True)")
        return self._authority.issue(role)

    def access(self, role: str, service_url: str, admin_url: str) -> RoleAccess:
        """Makes the access of a role."""
        base = self._directory / quote(role, safe="")
        conf = {"webServiceUrl": admin_url, "brokerServiceUrl": service_url}
        trusted, token, path = None, "", None
        if self._authority is not None:
            trusted = self._authority.path
            conf |= {"tlsTrustCertsFilePath": str(trusted), "tlsEnableHostnameVerification": "true"}
        if self._key:
            token, path = self.token(role), base.with_name(f"{base.name}.token")
            if not path.exists():
                write_secret_file(path, token.encode())
            conf |= {"authPlugin": _PLUGIN, "authParams": path.as_uri()}
        conf_path = base.with_name(f"{base.name}.client.conf")
        conf_path.write_text("".join(f"{key}={value}\n" for key, value in conf.items()))
        return RoleAccess(service_url, admin_url, conf_path, trusted, path, Secret(token))
