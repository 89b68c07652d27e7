"""Encrypted entries of a read: decrypted before they are unpacked, or what `cryptoFailureAction` says (READ-13,
READ-14)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from spark_pulsar.client.encryption.key_files import KeyFiles
from spark_pulsar.client.errors import DecryptionError
from spark_pulsar.connector.errors import UnreadableMessageError
from spark_pulsar.connector.options.encryption import ACTION, CONSUME, DISCARD, PRIVATE_KEYS, needing_cryptography
from spark_pulsar.connector.options.options import Options
from spark_pulsar.wire.columns.entries import EntryTable, Kind, as_stored, with_payloads, without_entries
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata

if TYPE_CHECKING:
    from spark_pulsar.client.encryption.decryptor import Decryptor

LOG: Final = logging.getLogger("spark_pulsar")


class EntryDecryption:
    """Decryption of the entries of one range of one topic partition. Loads no key before an encrypted entry comes."""

    def __init__(self, topic: str, options: Options) -> None:
        self._topic = topic
        self._private_keys = options.encryption_private_keys
        self._action = options.crypto_failure_action
        self._decryptor: Decryptor | None = None
        self._discarded = 0
        self._warned = 0

    def open(self, table: EntryTable) -> EntryTable:
        """Returns the table with its encrypted entries decrypted.

        Those that cannot be are left out, or one message as they are stored, as the action says; else
        UnreadableMessageError. EncryptionKeyError when the file of a private key cannot be used, whatever the action.
        """
        encrypted = (table.is_encrypted & (table.kinds != Kind.MARKER)).nonzero()[0].tolist()
        if not encrypted:
            return table
        opened: list[int] = []
        payloads: list[bytes] = []
        closed: dict[int, DecryptionError] = {}
        for i in encrypted:
            try:
                payloads.append(self._decrypt(table, i))
                opened.append(i)
            except DecryptionError as error:
                closed[i] = error
        table = with_payloads(table, opened, payloads)
        return self._act(table, closed) if closed else table

    def _decrypt(self, table: EntryTable, i: int) -> bytes:
        if self._decryptor is None:
            if self._private_keys is None:
                metadata = MessageMetadata.FromString(bytes(table.metadata(i)))
                names = " and ".join(repr(key.key) for key in metadata.encryption_keys[:3])
                raise DecryptionError(f"it is encrypted for {names}, and there is no option {PRIVATE_KEYS}")
            self._decryptor = _decryptor(self._private_keys)
        metadata = MessageMetadata.FromString(bytes(table.metadata(i)))
        return self._decryptor.decrypt(metadata, table.payload(i))

    def _act(self, table: EntryTable, closed: dict[int, DecryptionError]) -> EntryTable:
        first, error = next(iter(closed.items()))
        at = f"{table.entries.ids[0, first]}:{table.entries.ids[1, first]}"
        if self._action == CONSUME:
            return as_stored(table, list(closed))
        if self._action == DISCARD:
            self._warn(int(table.message_counts[list(closed)].sum()), at, error)
            return without_entries(table, list(closed))
        raise UnreadableMessageError(
            f"{self._topic}: entry {at} cannot be decrypted: {error}. Give its private key in {PRIVATE_KEYS}, or set "
            f"{ACTION} to {DISCARD} or {CONSUME} to go on with it"
        ) from error

    def _warn(self, count: int, at: str, error: DecryptionError) -> None:
        """Warns of messages that are left out: of the first ones, and whenever there are twice as many."""
        self._discarded += count
        if self._discarded >= 2 * self._warned:
            self._warned = self._discarded
            LOG.warning(
                "%s: %d messages so far cannot be decrypted and are left out (%s = %s), at %s: %s",
                self._topic, self._discarded, ACTION, DISCARD, at, error,
            )  # fmt: skip


def _decryptor(private_keys: KeyFiles) -> Decryptor:
    with needing_cryptography():
        from spark_pulsar.client.encryption.decryptor import Decryptor
    return Decryptor(private_keys)
