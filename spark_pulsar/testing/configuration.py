"""Configuration of a broker under test: keys and values are checked before a process starts."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import PurePath

from spark_pulsar.broker.configuration.keys import setting_text, shown
from spark_pulsar.server.configuration.pulsar_keys import PULSAR_KEYS
from spark_pulsar.server.configuration.reading import KEYS, InvalidConfiguration, load_config

_DIRECTORY = "dataDirectory"


def properties(conf: Mapping[str, object], base: Mapping[str, str]) -> str:
    """Writes keys of `broker.conf` as its lines, to go on top of those of `base`.

    Raises InvalidConfiguration for a key that Pulsar does not have, with the one that may be meant, and for a value
    that the broker cannot read. Keys of Apache Pulsar without an effect here are taken: the broker's log names them.
    """
    for key in conf:
        if not isinstance(key, str):
            raise InvalidConfiguration(f"{key!r} is no key: give texts")
    if _DIRECTORY in conf:
        raise InvalidConfiguration(f"{_DIRECTORY} is not for conf: the argument data_dir names the directory")
    texts = {key: _text(key, value) for key, value in conf.items()}
    for key in texts:
        if key not in KEYS and key not in PULSAR_KEYS:
            raise InvalidConfiguration(f"unknown key {key!r}{_meant(key)}")
    load_config(None, {**base, **texts})
    return "".join(f"{key}={text}\n" for key, text in texts.items())


def _meant(key: str) -> str:
    near = get_close_matches(key, [*KEYS, *PULSAR_KEYS], 1)
    return f": did you mean {near[0]}?" if near else "; docs/broker-configuration.md lists the keys"


def _text(key: str, value: object) -> str:
    if not isinstance(value, str | int | float | PurePath):
        raise InvalidConfiguration(f"{key}: want text, a number, True or False, got {type(value).__name__}")
    text = setting_text(value)
    if "\n" in text or "\r" in text:
        raise InvalidConfiguration(f"{key}={shown(key, text)!r}: want one line")
    return text
