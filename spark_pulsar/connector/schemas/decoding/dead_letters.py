"""Dead letters: messages that do not decode (SCHEMA-18) go to a topic of their own, as they are, and the read goes on.

At least once: a task that is retried publishes them again, under the same ORIGIN_MESSAGE_ID. A letter above the
broker's limit, as that of a chunked or a compressed message may be, goes in chunks.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.clock import wall_ms
from spark_pulsar.client.publishing.publisher import Publisher
from spark_pulsar.connector.errors import UndecodableMessageError
from spark_pulsar.connector.schemas.payloads.reasons import Reasons
from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.model.letters import ORIGIN_MESSAGE_ID, REAL_TOPIC
from spark_pulsar.wire.entries.chunks import split
from spark_pulsar.wire.pulsar_api_pb2 import MessageIdData, MessageMetadata

ERROR: Final = "DECODE_ERROR"
"""Property with the reason; REAL_TOPIC and ORIGIN_MESSAGE_ID beside it are those of Pulsar's dead letter policy."""

NEEDED: Final = ("value", "__key", "__messageId", "__eventTime", "__messageProperties")
"""Columns that a dead letter is made of."""

_MOST_ERROR_CHARACTERS: Final = 1_000


class DeadLetters:
    """The dead letter topic of a read, for the messages of one topic partition. Opens nothing until it is needed."""

    def __init__(self, client: PulsarClient, dead_letter_topic: str, topic: str) -> None:
        self._client = client
        self._dead_letter_topic = dead_letter_topic
        self._topic = topic
        self._publisher: Publisher | None = None

    def __enter__(self) -> DeadLetters:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._publisher is not None:
            self._publisher.close()

    def publish(self, batch: Any, errors: Reasons) -> None:
        """Publishes rows of `batch`, which has the columns NEEDED, with the reason of each; returns when they are
        stored."""
        publisher = self._open()
        messages = batch.select(NEEDED).take(list(errors)).to_pylist()
        for reason, message in zip(errors.values(), messages, strict=True):
            metadata = letter_metadata(message, self._topic, reason)
            try:
                _send(publisher, metadata, message["value"] or b"")
            except NotAllowed as error:  # the properties leave no room
                raise UndecodableMessageError(
                    f"{self._topic}: message {id_text(message['__messageId'])} does not decode, and is too large for "
                    f"the deadLetterTopic {self._dead_letter_topic}: {error}. Set mode to PERMISSIVE to go on with it"
                ) from error
        publisher.flush()

    def _open(self) -> Publisher:
        if self._publisher is None:
            partitions = self._client.partitions_of(self._dead_letter_topic, create=True)
            self._publisher = self._client.publisher(partitions[zlib.crc32(self._topic.encode()) % len(partitions)])
        return self._publisher


def _send(publisher: Publisher, metadata: MessageMetadata, payload: bytes) -> None:
    """Sends a message as one entry or as chunks. Raises NotAllowed for one that is too large even so."""
    metadata.producer_name = publisher.producer_name
    metadata.sequence_id = sequence_id = publisher.next_sequence_id
    metadata.publish_time = wall_ms()
    for entry, part in split(metadata, payload, publisher.max_message_size_bytes):
        publisher.send(entry, part, sequence_id=sequence_id)


def letter_metadata(message: Mapping[str, Any], topic: str, reason: str) -> MessageMetadata:
    """Returns the metadata of the dead letter of a message of `topic`, which has the columns NEEDED."""
    metadata = MessageMetadata()
    if message["__key"] is not None:
        _set_key(metadata, message["__key"])
    if message["__eventTime"] is not None:
        metadata.event_time = max(0, round(message["__eventTime"].timestamp() * 1000))
    properties = {
        **dict(message["__messageProperties"]),
        REAL_TOPIC: topic,
        ORIGIN_MESSAGE_ID: id_text(message["__messageId"]),
        ERROR: reason[:_MOST_ERROR_CHARACTERS],
    }
    for key, value in properties.items():
        metadata.properties.add(key=key, value=value)
    if message["value"] is None:
        metadata.null_value = True
    return metadata


def _set_key(metadata: MessageMetadata, key: bytes) -> None:
    try:
        metadata.partition_key = key.decode()
    except UnicodeDecodeError:
        import base64

        metadata.partition_key = base64.b64encode(key).decode()
        metadata.partition_key_b64_encoded = True


def id_text(serialised: bytes) -> str:
    """Returns a message id as text: `ledger:entry:partition`, with the batch index behind it inside of a batch."""
    message_id = MessageIdData.FromString(serialised)
    batch = f":{message_id.batch_index}" if message_id.batch_index >= 0 else ""
    return f"{message_id.ledgerId}:{message_id.entryId}:{message_id.partition}{batch}"
