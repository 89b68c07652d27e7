"""Topics in which a query keeps its notes, of transactions (TXN-2) and of producers (ONCE-12): read from a position to
the end."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.reading.positions import after_entry
from spark_pulsar.connector.options.options import Options
from spark_pulsar.model.names import TopicName
from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.wire.entries.entry_bytes import parse_entry


def log_topic(options: Options, prefix: str, writer: str) -> str:
    """Returns the topic of a query's log: the one that the options name, else one beside the topic to write to."""
    if options.transaction_topic is not None:
        return options.transaction_topic
    namespace = "public/default" if options.topic is None else TopicName.parse(options.topic).namespace_name
    return f"persistent://{namespace}/{prefix}{quote(writer, safe='')}"


def log_subscription(options: Options, name: str) -> str:
    """Returns the durable subscription of a query's log: its name, behind `subscriptionPrefix` where that is given."""
    return f"{options.subscription_prefix}-{name}" if "subscriptionPrefix" in options.given else name


def messages_from(client: PulsarClient, partition: str, start: MessageId) -> Iterator[tuple[Position, bytes]]:
    """Yields position and payload of each message from a position on, as far as they can be read now."""
    last = client.last_message_id(partition)
    if last is None or last.position < start.position:
        return
    with client.fetch(partition, start, after_entry(last), is_shared=True) as fetch:
        for block in fetch:
            ids = zip(block.ledger_ids, block.entry_ids, strict=True)
            for at, start_at, end_at in zip(ids, block.starts, block.ends, strict=True):
                yield Position(*at), bytes(parse_entry(block.buffer, start_at, end_at).payload)
