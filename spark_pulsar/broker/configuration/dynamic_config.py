"""Dynamic configuration: keys that the admin API sets in a running broker, over `broker.conf` (ADM-1, ADM-2).

Their texts are documents of the durable state. The texts of `broker.conf` hold again when they are deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from .broker_config import BrokerConfig
from .keys import Key, keys_of, shown

DYNAMIC_KEYS: Final[Mapping[str, tuple[str, Key]]] = {
    name: (field, key) for name, (field, key) in keys_of(BrokerConfig).items() if key.is_dynamic
}
"""Field and key, by Pulsar's name."""


def read(name: str, text: str) -> Any:
    """Reads the text of a dynamic key; ValueError, whose text names the key and the wanted form, when it has none."""
    try:
        return DYNAMIC_KEYS[name][1].read(text)
    except ValueError as error:
        raise ValueError(f"{name}={shown(name, text)}: {error}") from error


def configured(config: BrokerConfig, texts: Mapping[str, str]) -> BrokerConfig:
    """Returns a configuration with these texts of dynamic keys in place of its own. Those that cannot be read, which a
    broker of another version may have stored, have no effect; `notes` names them."""
    values: dict[str, Any] = {}
    for name, text in texts.items():
        if not _flaw(name, text):
            values[DYNAMIC_KEYS[name][0]] = read(name, text)
    return replace(config, **values) if values else config


def notes(texts: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each text: the value that holds over `broker.conf`, or the reason why it has no effect."""
    for name, text in sorted(texts.items()):
        flaw = _flaw(name, text)
        yield (
            f"{flaw}; it has no effect" if flaw else f"{name}={shown(name, text)} holds in place of broker.conf's value"
        )


def _flaw(name: str, text: str) -> str:
    """Returns the reason why a text cannot be used; empty when it can (ADM-3)."""
    if name not in DYNAMIC_KEYS:
        return f"{name} is no dynamic key of this broker"
    try:
        read(name, text)
    except ValueError as error:
        return str(error)
    return ""
