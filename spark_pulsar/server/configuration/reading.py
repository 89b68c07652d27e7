"""Reading of `broker.conf`: Pulsar's key names, and overrides, as one checked configuration.

A key that Apache Pulsar knows and this broker does not act upon is named in `unsupported_keys`; a key that neither
broker knows in `unknown_keys`. Both are for the caller to report; neither stops the broker. A value that cannot be read
does, and so does a key that would keep strangers out. No error shows a secret (SEC-85: `broker.configuration.keys`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from spark_pulsar.broker.configuration.broker_config import BrokerConfig
from spark_pulsar.broker.configuration.keys import MASK, Key, keys_of, setting_text, shown

from .pulsar_keys import PULSAR_KEYS
from .server_config import ServerConfig

_SERVER_KEYS: Final = keys_of(ServerConfig)
_BROKER_KEYS: Final = keys_of(BrokerConfig)

KEYS: Final[Mapping[str, Key]] = {name: key for name, (_, key) in (_SERVER_KEYS | _BROKER_KEYS).items()}
"""Every key that has an effect, by its name."""


class InvalidConfiguration(ValueError):
    """Error of a value of a known key that cannot be read; the text names key, value and expected form."""


def load_config(path: str | Path | None = None, overrides: Mapping[str, object] | None = None) -> ServerConfig:
    """Loads the configuration of the file at `path` (none: defaults), with `overrides` (Pulsar's key names) on top
    (SEC-63).

    Raises InvalidConfiguration for a value that cannot be read, OSError for a file that cannot.
    """
    settings = settings_of(path)
    settings.update({key: setting_text(value) for key, value in (overrides or {}).items()})
    server: dict[str, Any] = {}
    broker: dict[str, Any] = {}
    unsupported: list[str] = []
    unknown: list[str] = []
    for key, text in settings.items():
        if key not in KEYS:
            (unsupported if key in PULSAR_KEYS else unknown).append(key)
        elif text or KEYS[key].takes_empty:  # `key=` in broker.conf means otherwise: not set
            try:
                value = KEYS[key].read(text)
            except ValueError as error:
                raise InvalidConfiguration(f"{key}={shown(key, text)}: {error}") from error
            if key in _SERVER_KEYS:
                server[_SERVER_KEYS[key][0]] = value
            else:
                broker[_BROKER_KEYS[key][0]] = value
    if broker.get("authorization_enabled") and not broker.get("authentication_enabled"):
        raise InvalidConfiguration(
            "authorizationEnabled=true: want authenticationEnabled=true too, without it no client has a role"
        )
    if "keep_alive_interval_ms" in broker:
        broker["handshake_timeout_ms"] = broker["keep_alive_interval_ms"]
    core = BrokerConfig(**broker, texts=_texts(settings))
    _check_internal_listener(core)
    return ServerConfig(
        **server,
        broker=core,
        unsupported_keys=tuple(unsupported),
        unknown_keys=tuple(unknown),
    )


def _texts(settings: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Returns the text of every key, set or not, with secrets masked (SEC-85)."""
    given = {
        name: settings.get(name) or ("" if key.takes_empty and name in settings else key.default)
        for name, key in KEYS.items()
    }
    return tuple(
        (name, MASK if text and KEYS[name].is_secret else shown(name, text)) for name, text in sorted(given.items())
    )


def _check_internal_listener(config: BrokerConfig) -> None:
    """Refuses the name of a listener that there is not (SEC-47)."""
    names = [listener.name for listener in config.advertised_listeners]
    if config.internal_listener and config.internal_listener not in names:
        wanted = f"one of {', '.join(names)}" if names else "advertisedListeners that have it"
        raise InvalidConfiguration(f"internalListenerName={config.internal_listener}: want {wanted}")


def settings_of(path: str | Path | None) -> dict[str, str]:
    """Reads the texts of a file by key, none without a file. Raises as `load_config`."""
    return {} if path is None else parse_properties(_text_of(Path(path)))


def parse_properties(text: str) -> dict[str, str]:
    """Reads `key=value` lines; `#` and `!` begin comments; a key that comes twice keeps its last value."""
    settings: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        key, separator, value = stripped.partition("=")
        if not separator:
            raise InvalidConfiguration(f"line {number}: want key=value")  # not quoted: it may be a secret
        settings[key.strip()] = value.strip()
    return settings


def _text_of(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidConfiguration(f"line {line}: want UTF-8, got {data[error.start : error.end]!r}") from error
