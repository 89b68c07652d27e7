"""The table of authentication plugins, and the configuration that names one of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from spark_pulsar.client.authentication.basic import BasicCredentials
from spark_pulsar.client.authentication.credentials import Credentials, NoCredentials
from spark_pulsar.client.authentication.oauth2 import OAuth2Credentials
from spark_pulsar.client.authentication.sources import parse_params
from spark_pulsar.client.authentication.token import TokenCredentials
from spark_pulsar.client.errors import NotSupportedByClient
from spark_pulsar.client.key_stores import TYPES, KeyStore
from spark_pulsar.client.secret import Secret

_PACKAGE: Final = "org.apache.pulsar.client.impl.auth."
DISABLED: Final = f"{_PACKAGE}AuthenticationDisabled"
TLS: Final = f"{_PACKAGE}AuthenticationTls"
KEY_STORE_TLS: Final = f"{_PACKAGE}AuthenticationKeyStoreTls"
PLUGINS: Final[dict[str, Callable[[Secret], Credentials]]] = {
    f"{_PACKAGE}AuthenticationToken": TokenCredentials,
    f"{_PACKAGE}AuthenticationBasic": BasicCredentials,
    f"{_PACKAGE}oauth2.AuthenticationOAuth2": OAuth2Credentials,
    TLS: lambda params: NoCredentials("tls"),
    KEY_STORE_TLS: lambda params: NoCredentials("tls"),
    DISABLED: lambda params: NoCredentials(),
}
"""Maker of credentials from the parameters of each plugin of the Java client."""
_SHORT: Final = {
    "token": f"{_PACKAGE}AuthenticationToken",
    "basic": f"{_PACKAGE}AuthenticationBasic",
    "oauth2": f"{_PACKAGE}oauth2.AuthenticationOAuth2",
    "tls": TLS,
}
"""The names that the Python and C++ clients also take."""
_NO_PARAMS: Final = Secret("")


@dataclass(frozen=True, slots=True)
class Authentication:
    """The plugin of a client and its parameters. Creating one raises NotSupportedByClient for other plugins, ValueError
    for parameters that the plugin cannot take."""

    plugin: str = ""
    """The class name of the Java client's plugin, or its short name; empty: none."""
    params: Secret = _NO_PARAMS

    def __post_init__(self) -> None:
        self.check_supported(self.plugin)
        if self.params and not self.plugin:
            raise ValueError("authParams need authPluginClassName, the plugin that they are for")
        if self.params and self._class_name == DISABLED:
            raise ValueError(f"authParams are given, and authPluginClassName {DISABLED} shows none")
        _ = self.credentials(), self.certificate, self.key_store

    @staticmethod
    def check_supported(plugin: str) -> None:
        """Raises NotSupportedByClient for a plugin that is not in the table."""
        if plugin and _SHORT.get(plugin.lower(), plugin) not in PLUGINS:
            names = ", ".join(name for name in PLUGINS if name != DISABLED)
            raise NotSupportedByClient(f"the authentication plugin {plugin!r} is not supported; supported are {names}")

    @property
    def _class_name(self) -> str:
        return _SHORT.get(self.plugin.lower(), self.plugin)

    def credentials(self) -> Credentials:
        """Returns new credentials, for one client in one process."""
        return PLUGINS[self._class_name](self.params) if self.plugin else NoCredentials()

    @property
    def is_by_certificate(self) -> bool:
        """Returns whether the client's certificate says who it is."""
        return self._class_name in (TLS, KEY_STORE_TLS)

    @property
    def key_store(self) -> KeyStore | None:
        """The key store of the client's certificate, when the parameters name one."""
        if self._class_name != KEY_STORE_TLS or not self.params:
            return None
        params = parse_params(self.params)
        kind = params.get("keyStoreType", "JKS")
        if kind.upper() not in TYPES:
            raise ValueError(f"keyStoreType {kind!r} is none of {', '.join(TYPES)}")
        if not params.get("keyStorePath"):
            raise ValueError("expected keyStoreType:JKS,keyStorePath:PATH,keyStorePassword:TEXT")
        return KeyStore(params["keyStorePath"], Secret(params.get("keyStorePassword", "")))

    @property
    def certificate(self) -> tuple[str, str] | None:
        """The files of the client's certificate and of its key, when the parameters name them."""
        if self._class_name != TLS or not self.params:
            return None
        params = parse_params(self.params)
        try:
            return params["tlsCertFile"], params["tlsKeyFile"]
        except KeyError as missing:
            raise ValueError(f"{missing} is missing: expected tlsCertFile:PATH,tlsKeyFile:PATH") from None
