"""Commands that a broker sends entry by entry, SEND_RECEIPT and MESSAGE, made by protobuf.

The broker itself writes many at once (`wire.receipts`, `wire.messages`), to the same bytes.
"""

from __future__ import annotations

from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.wire import pulsar_api_pb2 as api
from spark_pulsar.wire.entries.entry_bytes import BROKER_METADATA_MAGIC
from spark_pulsar.wire.protocol import ack_sets
from spark_pulsar.wire.protocol.commands import command_of, message_id_data
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand


def send_receipt(producer_id: int, sequence_id: int, position: Position, highest_sequence_id: int = 0) -> BaseCommand:
    """SEND_RECEIPT of one entry. (-1, -1) = dropped duplicate."""
    return command_of(
        api.CommandSendReceipt(
            producer_id=producer_id,
            sequence_id=sequence_id,
            message_id=message_id_data(position),
            highest_sequence_id=highest_sequence_id,
        )
    )


def message(
    consumer_id: int,
    message_id: MessageId,
    redelivery_count: int = 0,
    ack_set: int | None = None,
    consumer_epoch: int | None = None,
) -> BaseCommand:
    """MESSAGE of one entry, without its bytes."""
    data = message_id_data(message_id.position)
    data.partition = message_id.partition
    return command_of(
        api.CommandMessage(
            consumer_id=consumer_id,
            message_id=data,
            redelivery_count=redelivery_count or None,
            ack_set=None if ack_set is None else ack_sets.words(ack_set),
            consumer_epoch=consumer_epoch,
        )
    )


def build_broker_metadata(broker_timestamp_ms: int, index: int) -> bytes:
    """Returns the 0x0e02 block: when the broker stored the entry, and the index of its *last* message in the topic."""
    body = api.BrokerEntryMetadata(broker_timestamp=broker_timestamp_ms, index=index).SerializeToString()
    return b"".join((BROKER_METADATA_MAGIC, len(body).to_bytes(4, "big"), body))
