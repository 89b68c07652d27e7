"""Encryption of a producer's payloads: one data key for its life, sealed for each public key."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from spark_pulsar.client.encryption.data_keys import load_public_key, seal
from spark_pulsar.client.encryption.key_files import KeyFiles
from spark_pulsar.client.errors import EncryptionKeyError
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

_KEY_BITS: Final = 256
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16


class Encryptor:
    """A data key of its own, for the producers of one task. Raises EncryptionKeyError for a key that cannot be used
    (SINK-9)."""

    def __init__(self, names: Sequence[str], public_keys: KeyFiles) -> None:
        data_key = AESGCM.generate_key(_KEY_BITS)
        self._cipher = AESGCM(data_key)
        self._described = MessageMetadata()
        for name in names:
            place = public_keys.place_of(name)
            if not place:
                raise EncryptionKeyError(f"there is no public key for the name {name!r}")
            self._described.encryption_keys.add(key=name, value=seal(load_public_key(place), data_key))
        self._described.encryption_param = bytes(_NONCE_BYTES)
        self.overhead_bytes = _TAG_BYTES + len(self._described.SerializePartialToString())
        """Bytes that an entry grows by."""

    def encrypt(self, metadata: MessageMetadata, payload: bytes | memoryview) -> bytes:
        """Returns the payload of an entry encrypted, compressed already if it is to be; `metadata` then says so."""
        nonce = os.urandom(_NONCE_BYTES)
        metadata.MergeFrom(self._described)
        metadata.encryption_param = nonce
        return self._cipher.encrypt(nonce, payload, None)

    def decrypt(self, metadata: MessageMetadata, payload: bytes | memoryview) -> bytes:
        """Returns the payload that `encrypt` of this object was given, and clears the fields that it set in
        `metadata`."""
        opened = self._cipher.decrypt(metadata.encryption_param, bytes(payload), None)
        metadata.ClearField("encryption_keys")
        metadata.ClearField("encryption_param")
        return opened
