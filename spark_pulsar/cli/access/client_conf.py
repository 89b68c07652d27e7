"""`client.conf`, the file of addresses and credentials that Pulsar's own command line tools read (SEC-82)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import typer

PLACE: Final = Path("conf/client.conf")
"""The file in the working directory that is read when no other is named."""
WEB_URLS: Final = ("webServiceUrl", "serviceUrl")
BROKER_URLS: Final = ("brokerServiceUrl", "webServiceUrl", "serviceUrl")
"""Keys of an address; the first that is set counts. Of the last two, only `pulsar://` is one of a broker's."""
_KEYS: Final = frozenset(
    {
        "webServiceUrl",
        "brokerServiceUrl",
        "serviceUrl",
        "authPlugin",
        "authParams",
        "tlsTrustCertsFilePath",
        "tlsAllowInsecureConnection",
        "tlsEnableHostnameVerification",
        "tlsCertificateFilePath",
        "tlsKeyFilePath",
        "listenerName",
    }
)
_OF_JAVA: Final = {
    "useKeyStoreTls": "certificates are read from PEM files, by tlsTrustCertsFilePath and the like",
    "sslFactoryPlugin": "there are no plugins for TLS here",
    "webserviceTlsProvider": "TLS is that of Python's ssl",
    "proxyServiceUrl": "the commands connect to the broker itself",
}
"""Keys that would change connections, with the reason why they are refused."""
_BESIDE: Final = (
    "tlsTrustStoreType",
    "tlsTrustStorePath",
    "tlsTrustStorePassword",
    "tlsKeyStoreType",
    "tlsKeyStorePath",
    "tlsKeyStorePassword",
    "sslFactoryPluginParams",
    "proxyProtocol",
)
"""Keys that mean nothing without those."""


@dataclass(frozen=True, slots=True)
class ClientConf:
    """The settings of one file; none without a file."""

    path: Path | None = None
    _values: Mapping[str, str] = field(default_factory=dict, repr=False)

    def text(self, *keys: str) -> str:
        """Returns the value of the first of these keys that is set, empty without any."""
        return next((self._values[key] for key in keys if self._values.get(key)), "")

    def switch(self, key: str) -> bool | None:
        """Returns the value of a key that is true or false."""
        word = self.text(key).lower()
        if word not in ("", "true", "false"):
            raise typer.BadParameter(f"{self.path}: {key}={self.text(key)}: want true or false")
        return word == "true" if word else None


def read_client_conf(given: Path | None) -> ClientConf:
    """Reads the file that was given, else that of $PULSAR_CLIENT_CONF, else the one in its place, if there is one."""
    named = given or (Path(text) if (text := os.environ.get("PULSAR_CLIENT_CONF")) else None)
    path = named or PLACE
    if named is None and not path.is_file():
        return ClientConf()
    try:
        if named is None and path.stat().st_uid not in (0, os.geteuid()):
            raise typer.BadParameter(f"{path} belongs to another user: --client-conf must name it to have it read")
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{path} cannot be read: {error}") from error
    values = _values_of(path, text)
    for key, reason in _OF_JAVA.items():
        if values.get(key, "").lower() not in ("", "false"):
            raise typer.BadParameter(f"{path}: {key} is not supported: {reason}")
    for key in values.keys() - _KEYS - _OF_JAVA.keys() - set(_BESIDE):
        near = get_close_matches(key, _KEYS, 1)
        meant = f": did you mean {near[0]}?" if near else ""
        typer.echo(f"spark-pulsar: {path}: unknown key {key}, ignored{meant}", err=True)
    return ClientConf(path, values)


def _values_of(path: Path, text: str) -> dict[str, str]:
    values = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        key, separator, value = stripped.partition("=")
        if not separator:  # not shown: it may be a secret
            raise typer.BadParameter(f"{path}, line {number}: want key=value")
        values[key.strip()] = value.strip()
    return values
