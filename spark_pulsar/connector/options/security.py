"""Security options: TLS, authentication, and how brokers behind listeners and proxies are reached."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spark_pulsar.client.authentication.plugins import Authentication
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.connections.service_url import PLAIN_SCHEME, TLS_SCHEME, parse_service_url, uses_tls
from spark_pulsar.client.connections.tls import PROTOCOLS as ALL_PROTOCOLS
from spark_pulsar.client.connections.tls import TlsConfig
from spark_pulsar.client.key_stores import TYPES as STORE_TYPES
from spark_pulsar.client.key_stores import KeyStore
from spark_pulsar.client.secret import Secret
from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.table import ANY, Option
from spark_pulsar.connector.options.values import boolean, names_in, one_of, read
from spark_pulsar.model.errors import PulsarError

_CLIENT: Final = "pulsar.client."
USE_TLS: Final = f"{_CLIENT}useTls"
PLUGIN: Final = f"{_CLIENT}authPluginClassName"
PARAMS: Final = f"{_CLIENT}authParams"
TRUST: Final = f"{_CLIENT}tlsTrustCertsFilePath"
INSECURE: Final = f"{_CLIENT}tlsAllowInsecureConnection"
VERIFY_HOST: Final = f"{_CLIENT}tlsHostnameVerificationEnable"
CERTIFICATE: Final = f"{_CLIENT}tlsCertificateFilePath"
KEY: Final = f"{_CLIENT}tlsKeyFilePath"
LISTENER: Final = f"{_CLIENT}listenerName"
PROXY: Final = f"{_CLIENT}proxyServiceUrl"
PROXY_PROTOCOL: Final = f"{_CLIENT}proxyProtocol"
USE_KEY_STORES: Final = f"{_CLIENT}useKeyStoreTls"
KEY_STORE: Final = f"{_CLIENT}tlsKeyStorePath"
KEY_STORE_TYPE: Final = f"{_CLIENT}tlsKeyStoreType"
KEY_STORE_PASSWORD: Final = f"{_CLIENT}tlsKeyStorePassword"
TRUST_STORE: Final = f"{_CLIENT}tlsTrustStorePath"
TRUST_STORE_TYPE: Final = f"{_CLIENT}tlsTrustStoreType"
TRUST_STORE_PASSWORD: Final = f"{_CLIENT}tlsTrustStorePassword"
PROTOCOLS: Final = f"{_CLIENT}tlsProtocols"
_STORE_TYPE: Final = ", ".join(f"`{kind}`" for kind in STORE_TYPES)
ROWS: Final = (
    Option(USE_TLS, "boolean", ANY, "as `service.url` says"),
    Option(TRUST, "path", ANY, "the system's authorities"),
    Option(VERIFY_HOST, "boolean", ANY, "`true`"),
    Option(INSECURE, "boolean", ANY, "`false`"),
    Option(CERTIFICATE, "path", ANY),
    Option(KEY, "path", ANY),
    Option(PLUGIN, "class name", ANY),
    Option(PARAMS, "text, `file:///path` or `env:NAME`", ANY),
    Option(USE_KEY_STORES, "boolean", ANY, "`false`"),
    Option(TRUST_STORE, "path", ANY),
    Option(TRUST_STORE_TYPE, _STORE_TYPE, ANY, "as the file is"),
    Option(TRUST_STORE_PASSWORD, "text", ANY),
    Option(KEY_STORE, "path", ANY),
    Option(KEY_STORE_TYPE, _STORE_TYPE, ANY, "as the file is"),
    Option(KEY_STORE_PASSWORD, "text", ANY),
    Option(PROTOCOLS, "names", ANY, "`TLSv1.2,TLSv1.3`"),
    Option(LISTENER, "name", ANY),
    Option(PROXY, "URL", ANY),
    Option(PROXY_PROTOCOL, "`SNI`", ANY),
)
"""Options that are read together, by `read_security`."""
_HIDDEN_BY_SPARK: Final = re.compile(r"token|url|^(?:file|env):", re.IGNORECASE)
_OF_STORES: Final = (
    *(TRUST_STORE, TRUST_STORE_TYPE, TRUST_STORE_PASSWORD),
    *(KEY_STORE, KEY_STORE_TYPE, KEY_STORE_PASSWORD),
)
_OF_TLS: Final = (TRUST, INSECURE, VERIFY_HOST, CERTIFICATE, KEY, PROXY, USE_KEY_STORES, PROTOCOLS, *_OF_STORES)


@dataclass(frozen=True, slots=True)
class SecurityOptions:
    """The part of the client's configuration that makes its connections safe. Shows no secret; picklable."""

    authentication: Authentication
    tls: TlsConfig
    listener_name: str
    sni_proxy_url: str


def read_service_url(values: Mapping[str, str]) -> str:
    """Returns the service URL, `pulsar+ssl://` whenever connections are to be encrypted. Raises OptionError."""
    url = str(read(values, "service.url", _service_url, ""))
    use_tls = read(values, USE_TLS, boolean, None)
    if use_tls is False and uses_tls(url):
        raise OptionError(f"{USE_TLS} = false contradicts the service.url {url!r}: {TLS_SCHEME}:// is TLS")
    return url.replace(f"{PLAIN_SCHEME}://", f"{TLS_SCHEME}://") if use_tls and not uses_tls(url) else url


def read_security(values: Mapping[str, str], service_url: str) -> SecurityOptions:
    """Returns what the options say about security, checked together with the service URL. Raises OptionError."""
    if not uses_tls(service_url) and (given := [name for name in _OF_TLS if _wants(values, name)]):
        raise OptionError(f"option {given[0]} needs TLS: service.url pulsar+ssl://host:6651")
    insecure = read(values, INSECURE, boolean, False)
    verify_host = read(values, VERIFY_HOST, boolean, None)
    if insecure and verify_host:
        raise OptionError(f"{INSECURE} and {VERIFY_HOST} contradict each other: give one of them")
    plugin = read(values, PLUGIN, _plugin, "")
    try:
        tls = TlsConfig(
            trust_certs_file_path=read(values, TRUST, _text, ""),
            hostname_verification_enable=verify_host is not False,
            allow_insecure_connection=insecure,
            certificate_file_path=read(values, CERTIFICATE, _text, ""),
            key_file_path=read(values, KEY, _text, ""),
            trust_store=_store(values, TRUST_STORE, TRUST_STORE_TYPE, TRUST_STORE_PASSWORD),
            key_store=_store(values, KEY_STORE, KEY_STORE_TYPE, KEY_STORE_PASSWORD),
            protocols=read(values, PROTOCOLS, _protocols, tuple(ALL_PROTOCOLS)),
        )
        security = SecurityOptions(
            authentication=read(values, PARAMS, lambda text: _authentication(plugin, text), None)
            or Authentication(plugin),
            tls=tls,
            listener_name=read(values, LISTENER, _text, ""),
            sni_proxy_url=_sni_proxy(values),
        )
        ClientConfig(
            service_url,
            authentication=security.authentication,
            tls=security.tls,
            sni_proxy_url=security.sni_proxy_url,
        )
    except OptionError:
        raise
    except (ValueError, PulsarError) as error:
        raise OptionError(f"options {_CLIENT}*: {error}") from error
    return security


def _wants(values: Mapping[str, str], name: str) -> bool:
    """Returns whether an option of TLS is given, and not as false, which says the same as no TLS."""
    return name in values and values[name].strip().lower() != "false"


def _store(values: Mapping[str, str], path: str, kind: str, password: str) -> KeyStore | None:
    """Returns a store, None where stores are not to be used: as the Java client, which then ignores them."""
    read(values, kind, one_of(*STORE_TYPES), "")
    if not read(values, USE_KEY_STORES, boolean, False) or path not in values:
        return None
    return KeyStore(read(values, path, _text, ""), Secret(values.get(password, "")))


def _protocols(text: str) -> tuple[str, ...]:
    """Reads names of versions of TLS, and leaves out those that are too old to be used at all."""
    names = tuple(name for name in names_in(text) if name in ALL_PROTOCOLS)
    if not names:
        raise ValueError(f"expected one of {', '.join(ALL_PROTOCOLS)}")
    return names


def _sni_proxy(values: Mapping[str, str]) -> str:
    """Returns the URL of the proxy that all connections go through, empty without one."""
    url, protocol = str(read(values, PROXY, _proxy_url, "")), str(read(values, PROXY_PROTOCOL, _protocol, ""))
    if bool(url) != bool(protocol):
        raise OptionError(
            f"options {PROXY} and {PROXY_PROTOCOL} need each other: give both, with {PROXY_PROTOCOL} = SNI"
        )
    return url


def _service_url(text: str) -> str:
    scheme, separator, rest = text.rstrip("/").partition("://")
    if separator and "://" in rest:
        raise ValueError("expected pulsar://host:port,host:port for several, with one scheme for all of them")
    if not separator or scheme not in (PLAIN_SCHEME, TLS_SCHEME, "http", "https"):
        raise ValueError("expected pulsar://host:port or pulsar+ssl://host:port")
    url = f"{scheme}://{','.join(host.strip() for host in rest.split(','))}"
    parse_service_url(url)
    return url


def _proxy_url(text: str) -> str:
    if not uses_tls(text):
        raise ValueError("expected pulsar+ssl://host:port")
    if len(parse_service_url(text)) > 1:
        raise ValueError("expected one address")
    return text


def _protocol(text: str) -> str:
    if text.upper() != "SNI":
        raise ValueError("expected SNI")
    return "SNI"


def _plugin(text: str) -> str:
    Authentication.check_supported(text)
    return text


def _authentication(plugin: str, params: str) -> Authentication:
    authentication = Authentication(plugin, Secret(params))
    # Spark hides values that hold a word such as token, password or url; those of the other plugins always do.
    if plugin and authentication.credentials().method == "token" and not _HIDDEN_BY_SPARK.search(params):
        raise ValueError(
            "write token:TEXT, so that Spark hides it in plans and events; better file:///path or env:NAME"
        )
    return authentication


def _text(text: str) -> str:
    if not text:
        raise ValueError("expected a text")
    return text
