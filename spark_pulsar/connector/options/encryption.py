"""Encryption options: names and files of keys (READ-15), and messages that cannot be encrypted (SINK-9) or decrypted
(READ-14)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from spark_pulsar.client.encryption.key_files import KeyFiles, check_place
from spark_pulsar.client.errors import NotSupportedByClient
from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.options.decode_mode import DEADLETTER
from spark_pulsar.connector.options.values import names_in

NAMES: Final = "encryptionKeys"
PUBLIC_KEYS: Final = "encryptionPublicKeys"
PRIVATE_KEYS: Final = "encryptionPrivateKeys"
ACTION: Final = "cryptoFailureAction"

FAIL: Final = "FAIL"
SEND: Final = "SEND"
DISCARD: Final = "DISCARD"
CONSUME: Final = "CONSUME"
FAILURE_ACTIONS: Final = (FAIL, SEND, DISCARD, CONSUME)
"""Actions by the Java client's names: SEND is of a write, DISCARD and CONSUME of a read."""


def key_names(text: str) -> tuple[str, ...]:
    """Reads the names of keys, separated by commas or in a JSON array. Raises ValueError."""
    names = tuple(dict.fromkeys(names_in(text)))
    if not names:
        raise ValueError("expected the name of a key")
    return names


def public_key_files(text: str) -> KeyFiles:
    """Reads the places of public keys. Raises ValueError."""
    return _key_files(text, is_private=False)


def private_key_files(text: str) -> KeyFiles:
    """Reads the places of private keys (READ-15). Raises ValueError, which quotes nothing."""
    return _key_files(text, is_private=True)


def _key_files(text: str, *, is_private: bool) -> KeyFiles:
    if not text.startswith("{"):
        check_place(text, is_private=is_private)
        return KeyFiles(text)
    try:
        places = json.loads(text)
    except json.JSONDecodeError:
        places = None
    if not isinstance(places, dict) or not places or not all(isinstance(place, str) for place in places.values()):
        raise ValueError('expected a place, or a JSON object of name to place: {"k": "/etc/pulsar/k.pem"}')
    for place in places.values():
        check_place(place, is_private=is_private)
    return KeyFiles(by_name=tuple(places.items()))


def check_encryption(names: Sequence[str], public_keys: KeyFiles | None, action: str, given: Collection[str]) -> None:
    """Checks the options of a write together. Raises OptionError."""
    if bool(names) != (public_keys is not None):
        raise OptionError(f"options {NAMES} and {PUBLIC_KEYS} need each other: give both to encrypt what is written")
    if ACTION in given and not names:
        raise OptionError(f"option {ACTION} is for writes with {NAMES} only")
    if action not in (FAIL, SEND):
        raise OptionError(f"option {ACTION} = {action} is for reads; a write knows {FAIL} and {SEND}")
    if public_keys is not None and (missing := [name for name in names if not public_keys.place_of(name)]):
        raise OptionError(f"option {PUBLIC_KEYS} names no key for {' and '.join(missing)}")


def check_decryption(private_keys: KeyFiles | None, action: str, mode: str, *, prunes_by_key: bool) -> None:
    """Checks the options of a read together. Raises OptionError."""
    if action == CONSUME and prunes_by_key:
        raise OptionError(f"options keys and {ACTION} = {CONSUME} contradict each other: keys in a batch are encrypted")
    if action == SEND:
        raise OptionError(f"option {ACTION} = {SEND} is for writes; a read knows {FAIL}, {DISCARD} and {CONSUME}")
    if action == CONSUME and mode == DEADLETTER:
        raise OptionError(
            f"mode {DEADLETTER} would publish encrypted payloads without what decrypts them: set {ACTION} to {DISCARD} "
            f"or {FAIL}, or use mode PERMISSIVE"
        )
    if private_keys is not None and mode == DEADLETTER:
        raise OptionError(
            f"mode {DEADLETTER} would publish decrypted payloads as they are: use mode PERMISSIVE with {PRIVATE_KEYS}"
        )


@contextmanager
def needing_cryptography() -> Iterator[None]:
    """Imports in here that fail say what to install. Raises NotSupportedByClient."""
    try:
        yield
    except ImportError as error:
        raise NotSupportedByClient(
            f"encrypted messages need the library cryptography, on the driver and on every executor: pip install "
            f"'spark-pulsar[encryption]' ({error})"
        ) from error
