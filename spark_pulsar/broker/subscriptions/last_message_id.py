"""Last message id of a topic: GET_LAST_MESSAGE_ID (RD-2, RD-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_pulsar.broker.message_lifetime import compaction
from spark_pulsar.broker.topic_log import entry_lookup
from spark_pulsar.model.errors import MetadataError, UnknownError
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import CommandGetLastMessageId

if TYPE_CHECKING:
    from spark_pulsar.broker.entities.core import Core
    from spark_pulsar.broker.entities.session import Session


def on_last_message_id(core: Core, session: Session, command: CommandGetLastMessageId) -> None:
    """Handles GET_LAST_MESSAGE_ID: the last entry that consumers may get, -1:-1 without one, and mark-delete (C13). One
    that reads the compacted view gets its last message (RD-4)."""
    consumer = session.consumers.get(command.consumer_id)
    if consumer is None:
        raise MetadataError("Consumer not found")
    topic, cursor = consumer.subscription.topic, consumer.subscription.cursor
    if topic.non_persistent is not None:
        raise UnknownError("Failed to recover Transaction Buffer.")  # Apache Pulsar's words (NP-5)

    def answer(last: MessageId) -> None:
        mark_delete = topic.ledger.last_passed(cursor.mark_delete)
        core.send(session, commands.last_message_id(command.request_id, last, mark_delete))

    last_position = topic.last_visible
    last_left = compaction.last_left(topic) if consumer.read_compacted else None
    if last_left is not None:
        answer(MessageId(last_left[0], last_left[1], topic.partition, last_left[2]))
        return

    def answer_from(entry: bytes | None) -> None:
        batch_index = -1 if entry is None else entry_lookup.declared_batch_size(entry) - 1
        answer(MessageId(*last_position, topic.partition, batch_index))

    if topic.ledger.contains(last_position):
        entry_lookup.fetch(core, last_position, answer_from)
    else:
        answer(MessageId(-1, -1, topic.partition))
