"""Topics that take encrypted messages only (PR-12). The broker decrypts nothing: a producer says that it encrypts, and
the metadata of each entry name the keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_pulsar.broker.entities.producer import disconnect_after_receipts
from spark_pulsar.model.errors import CorruptMessage, MetadataError
from spark_pulsar.wire.entries.entry_bytes import metadata_of

from .parts import parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.topic import Topic
    from spark_pulsar.wire.pulsar_api_pb2 import CommandProducer
    from spark_pulsar.wire.sends.send_runs import SendRun

    from .parts import Part

NOT_ENCRYPTED: Final = MetadataError("Messages must be encrypted")
"""Answer to a SEND without keys."""


class RequiredEncryption:
    """Topics in use whose namespace requires encryption."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.topics: set[Topic] = set()
        """The topics themselves; every run of SENDs reads its own."""

    def adopt(self, topic: Topic) -> None:
        """Adds or removes a topic that comes into use, or has other policies; producers that do not encrypt are
        closed."""
        if not self._core.policies_of(topic.name).encryption_required:
            self.topics.discard(topic)
            return
        self.topics.add(topic)
        for producer in list(topic.producers.values()):
            if not producer.is_encrypted:
                disconnect_after_receipts(self._core, producer)

    def remove_topic(self, topic: Topic) -> None:
        """Removes a topic that is deleted."""
        self.topics.discard(topic)

    def admit_producer(self, topic: Topic, command: CommandProducer) -> None:
        """Refuses, with MetadataError, a producer that does not encrypt where it must."""
        if command.encrypted:
            return
        if self._core.config.encryption_required_of_producers or topic in self.topics:
            raise MetadataError(f"Encryption is required in {topic.name}")


def allowed_parts(sends: SendRun) -> Iterator[Part]:
    """Yields a run in parts: encrypted entries, and those that are refused."""
    encrypted = [_is_encrypted(sends.buffer, start, end) for start, end in zip(sends.starts, sends.ends, strict=True)]
    return parts(sends, encrypted, NOT_ENCRYPTED)


def _is_encrypted(buffer: bytes, start: int, end: int) -> bool:
    """Returns whether an entry names its keys; metadata that cannot be read name none."""
    try:
        return bool(metadata_of(buffer, start, end).encryption_keys)
    except CorruptMessage:
        return False
