"""Encryption of what a task publishes, as the options of the write say."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from spark_pulsar.client.errors import EncryptionKeyError
from spark_pulsar.connector.options.encryption import ACTION, SEND, needing_cryptography
from spark_pulsar.connector.options.options import Options

if TYPE_CHECKING:
    from spark_pulsar.client.encryption.encryptor import Encryptor

LOG: Final = logging.getLogger("spark_pulsar")


def encryptor_of(options: Options) -> Encryptor | None:
    """Returns the encryption of a task, with a data key of its own; None where messages are to go out as they are.

    Raises EncryptionKeyError for a public key that cannot be used, unless `cryptoFailureAction` is SEND.
    """
    if options.encryption_public_keys is None:
        return None
    with needing_cryptography():
        from spark_pulsar.client.encryption.encryptor import Encryptor
    try:
        return Encryptor(options.encryption_keys, options.encryption_public_keys)
    except EncryptionKeyError as error:
        if options.crypto_failure_action != SEND:
            raise
        LOG.warning("messages are not encrypted (%s = %s): %s", ACTION, SEND, error)
        return None
