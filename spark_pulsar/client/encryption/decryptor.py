"""Decryption of messages: unseals each data key once, with the private keys that are known (READ-13)."""

from __future__ import annotations

from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from spark_pulsar.client.encryption.data_keys import PrivateKey, load_private_key, unseal
from spark_pulsar.client.encryption.key_files import KeyFiles
from spark_pulsar.client.errors import DecryptionError
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

_MOST_DATA_KEYS: Final = 1_000
_MOST_KEYS_OF_A_MESSAGE: Final = 100


class Decryptor:
    """The private keys of one reader, and the data keys that they have unsealed."""

    def __init__(self, private_keys: KeyFiles) -> None:
        self._places = private_keys
        self._private_keys: dict[str, PrivateKey] = {}
        self._data_keys: dict[bytes, AESGCM] = {}

    def decrypt(self, metadata: MessageMetadata, payload: bytes | memoryview) -> bytes:
        """Returns the payload of an encrypted entry, compressed still if it was.

        Raises DecryptionError when no private key opens it, or it is damaged (READ-14); EncryptionKeyError when the
        file of a private key cannot be used.
        """
        reasons = []
        for key in metadata.encryption_keys[:_MOST_KEYS_OF_A_MESSAGE]:
            try:
                return self._cipher(key.key, key.value).decrypt(metadata.encryption_param, payload, None)
            except InvalidTag:
                reasons.append(f"the data key for {key.key!r} does not fit, or the entry was changed")
            except ValueError as error:
                reasons.append(f"{error}")
        raise DecryptionError("; ".join(reasons[:3]))

    def _cipher(self, name: str, sealed: bytes) -> AESGCM:
        """Returns the cipher of a sealed data key. Raises ValueError without a private key for it."""
        cipher = self._data_keys.get(sealed)
        if cipher is None:
            key = self._private_key(name)
            try:
                cipher = AESGCM(unseal(key, sealed))
            except ValueError:
                raise ValueError(f"the private key for {name!r} is not the one that it was encrypted for") from None
            while len(self._data_keys) >= _MOST_DATA_KEYS:
                self._data_keys.pop(next(iter(self._data_keys)))
            self._data_keys[sealed] = cipher
        return cipher

    def _private_key(self, name: str) -> PrivateKey:
        place = self._places.place_of(name)
        if not place:
            raise ValueError(f"there is no private key for the name {name!r}")
        if place not in self._private_keys:
            self._private_keys[place] = load_private_key(place)
        return self._private_keys[place]
