"""Declaration of the options of `format("pulsar")`, and the options of other connectors that are not here (READ-7).

An option is a field of `Options`, made by `option`, `choice` or `switch`: its name, how it is read, its default, and
where it is valid. docs/connector-options.md says what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from spark_pulsar.connector.options.values import boolean, one_of

Use = Literal["batch read", "stream read", "batch write", "stream write"]

BATCH_READ: Final = "batch read"
STREAM_READ: Final = "stream read"
BATCH_WRITE: Final = "batch write"
STREAM_WRITE: Final = "stream write"
READ: Final[tuple[Use, ...]] = (BATCH_READ, STREAM_READ)
WRITE: Final[tuple[Use, ...]] = (BATCH_WRITE, STREAM_WRITE)
ANY: Final[tuple[Use, ...]] = READ + WRITE
ONLY_BATCH: Final[tuple[Use, ...]] = (BATCH_READ,)
ONLY_STREAM: Final[tuple[Use, ...]] = (STREAM_READ,)

REQUIRED: Final = "required"


@dataclass(frozen=True, slots=True)
class Option:
    """One row: canonical name, type as shown to users, where it is valid, default as text ("" = none)."""

    name: str
    kind: str
    uses: tuple[Use, ...]
    default: str = ""
    read: Callable[[str], Any] = str
    """Reads its text; raises ValueError or PulsarError."""
    value: Any = None
    """Its value where it is not given."""


def option(
    name: str, kind: str, uses: tuple[Use, ...], read: Callable[[str], Any], value: Any = None, shown: str | None = None
) -> Any:
    """Makes the field of an option; `shown` is the default in the docs, where that is not its value."""
    if shown is None:
        shown = "" if value in (None, ()) else f"`{value}`"
    return field(metadata={"option": Option(name, kind, uses, shown, read, value)})


def choice(name: str, words: tuple[str, ...], uses: tuple[Use, ...], kind: str = "") -> Any:
    """Makes the field of an option that is one of some words, the first by default."""
    return option(name, kind or ", ".join(f"`{word}`" for word in words), uses, one_of(*words), words[0])


def switch(name: str, uses: tuple[Use, ...], value: bool = False) -> Any:
    """Makes the field of an option that is true or false."""
    return option(name, "boolean", uses, boolean, value, f"`{str(value).lower()}`")


# Options other connectors know. Silence would let a job run with another meaning than its author's.
_NO_TEXT: Final = "an object, which no option can give"
UNSUPPORTED: Final[Mapping[str, str]] = {
    "kafka.bootstrap.servers": "use service.url",
    "pulsar.client.authParamMap": "use pulsar.client.authParams, which takes a JSON object, too",
    "pulsar.client.tlsCiphers": "left out, it would allow ciphers that it forbids; use pulsar.client.tlsProtocols",
    "pulsar.client.sslFactoryPlugin": "use PEM files or key stores, such as pulsar.client.tlsTrustStorePath",
    "pulsar.client.sslFactoryPluginParams": "use PEM files or key stores, such as pulsar.client.tlsTrustStorePath",
    "pulsar.client.socks5ProxyAddress": "connections would pass by the proxy; use pulsar.client.proxyServiceUrl",
    "pulsar.client.socks5ProxyUsername": "connections would pass by the proxy; use pulsar.client.proxyServiceUrl",
    "pulsar.client.socks5ProxyPassword": "connections would pass by the proxy; use pulsar.client.proxyServiceUrl",
    "pulsar.client.authentication": f"{_NO_TEXT}; use pulsar.client.authPluginClassName",
    "pulsar.client.serviceUrlProvider": f"{_NO_TEXT}; use service.url",
    "pulsar.client.clock": _NO_TEXT,
    "pulsar.client.openTelemetry": _NO_TEXT,
    "pulsar.reader.keyHashRanges": f"{_NO_TEXT}; use keys",
    "pulsar.reader.cryptoKeyReader": f"{_NO_TEXT}; use encryptionPrivateKeys",
    "pulsar.reader.messageCrypto": _NO_TEXT,
    "pulsar.reader.readerListener": _NO_TEXT,
    "pulsar.reader.readerInterceptorList": _NO_TEXT,
    "pulsar.producer.cryptoKeyReader": f"{_NO_TEXT}; use encryptionPublicKeys",
    "pulsar.producer.messageCrypto": _NO_TEXT,
    "pulsar.producer.customMessageRouter": _NO_TEXT,
    "batchingType": "use batcherBuilder",
    "pushDownFilters": "Spark 4.3 hands the reader of a filtered scan to other scans of the DataFrame, which then lack "
    "rows; use keys, startingTime and endingTime",
    "defaultCryptoKeyReader": "use encryptionPublicKeys and encryptionPrivateKeys",
}
"""Options of other connectors that are refused, with what to do."""

OF_STREAMNATIVE: Final = frozenset(
    {
        *("admin.url", "failOnDataLoss", "allowDifferentTopicSchemas", "waitingForNonExistedTopic", "pollTimeoutMs"),
        *("startingOffsets", "startingTime", "endingTime", "predefinedSubscription", "subscriptionPrefix"),
        "maxBytesPerTrigger",
    }
)
"""Options that StreamNative's connector accepts in reads and writes of any kind, and ignores in some."""
