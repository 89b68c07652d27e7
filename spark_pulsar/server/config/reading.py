"""Configuration: `broker.conf` with Pulsar's key names, and overrides, as one checked value.

A key that Apache Pulsar knows and this broker does not act upon is named in `unsupported_keys`; a key that nobody
knows in `unknown_keys`. Both are for the caller to report; neither stops the broker. A value that cannot be read does,
and so does a key that would keep strangers out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from spark_pulsar.broker.turn.config import BrokerConfig

from .keys import KEYS
from .pulsar_keys import PULSAR_KEYS, REFUSED_KEYS

_MIB: Final = 1024 * 1024


class InvalidConfiguration(ValueError):
    """A value of a known key cannot be read; the text names key, value and what was wanted."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Everything `serve` needs."""

    bind_address: str = "0.0.0.0"
    """bindAddress: where both ports listen."""
    port: int = 6650
    """brokerServicePort; 0 chooses a free one."""
    http_port: int = 8080
    """webServicePort; 0 chooses a free one."""
    data_dir: Path = Path("data")
    """dataDirectory (ours): journal, ledger files and checkpoint."""
    journal_sync: bool = True
    """journalSyncData: fdatasync before a receipt (DUR-1, DUR-5)."""
    journal_segment_bytes: int = 64 * _MIB
    """journalMaxSizeMB: size of one preallocated journal segment."""
    with_parent: bool = False
    """End when standard input ends: a child that must not outlive its parent (CLI switch, no key)."""
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    """What the core decides by."""
    unsupported_keys: tuple[str, ...] = ()
    """Keys of Apache Pulsar that were set and have no effect here."""
    unknown_keys: tuple[str, ...] = ()
    """Keys that were set and that neither broker knows."""


def load_config(path: str | Path | None = None, overrides: Mapping[str, object] | None = None) -> ServerConfig:
    """The configuration of the file at `path` (none: defaults), with `overrides` (Pulsar's key names) on top.

    Raises InvalidConfiguration for a value that cannot be read, OSError for a file that cannot.
    """
    settings = {} if path is None else parse_properties(_text_of(Path(path)))
    settings.update({key: _text(value) for key, value in (overrides or {}).items()})
    server: dict[str, Any] = {}
    broker: dict[str, Any] = {}
    unsupported: list[str] = []
    unknown: list[str] = []
    for key, text in settings.items():
        known = KEYS.get(key)
        if known is None:
            if key in REFUSED_KEYS and text.lower() == "true":
                raise InvalidConfiguration(f"{key}={text}: want false, this broker keeps nobody out yet")
            (unsupported if key in PULSAR_KEYS else unknown).append(key)
            continue
        if text == "":
            continue  # `key=` in broker.conf means: not set
        try:
            value = known.read(text)
        except ValueError as error:
            raise InvalidConfiguration(f"{key}={text}: {error}") from error
        (broker if known.of_broker else server)[known.field] = value
    if "keep_alive_interval_ms" in broker:
        broker["handshake_timeout_ms"] = broker["keep_alive_interval_ms"]
    config = ServerConfig(**server, unsupported_keys=tuple(unsupported), unknown_keys=tuple(unknown))
    return replace(config, broker=replace(config.broker, **broker))


def parse_properties(text: str) -> dict[str, str]:
    """`key=value` lines; `#` and `!` begin comments; a key that comes twice keeps its last value."""
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        key, separator, value = stripped.partition("=")
        if not separator:
            raise InvalidConfiguration(f"line {number}: want key=value, got {stripped!r}")
        settings[key.strip()] = value.strip()
    return settings


def _text_of(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidConfiguration(f"line {line}: want UTF-8, got {data[error.start : error.end]!r}") from error


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
