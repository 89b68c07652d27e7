"""A WebSocket that reads: from a message on, or from an end, by a cursor that ends with it (WS-14)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spark_pulsar.model.positions.ids import EARLIEST, LATEST, Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.commands import message_id_data
from spark_pulsar.wire.protocol.frames import command_frame

from . import consumer_commands
from .consumer_commands import BadCommand
from .consumer_messages import Content, Opened
from .consumer_parameters import ReaderParameters
from .parameters import invalid
from .protocol_consumer import Arrived, Subscribed
from .receiving import Current, WebSocketReceiver

if TYPE_CHECKING:
    from spark_pulsar.model.names import TopicName

    from .opened_bytes import OpenedBytes
    from .outbox import Outbox
    from .session import Session


class WebSocketReader(WebSocketReceiver):
    """A reader for one WebSocket (WS-14)."""

    def __init__(
        self,
        session: Session,
        outbox: Outbox,
        opened: OpenedBytes,
        subscription: str,
        parameters: ReaderParameters,
    ) -> None:
        super().__init__(session, outbox, opened, parameters.queue_size, parameters.crypto_failure_action)
        self._subscription = subscription
        self._parameters = parameters
        self._pending = 0

    async def open(self, topics: Sequence[TopicName]) -> None:
        """Attaches the readers. Raises the broker's error."""
        start, (topic,) = self._parameters.start, topics
        names = await self._session.partitions(topic)
        is_partitioned = names != [topic.full]
        if start is not None and is_partitioned:
            raise invalid("messageId: a topic with partitions is read from earliest or latest; name one partition")
        begin = EARLIEST if self._parameters.is_earliest else LATEST
        if start is not None:
            begin = Position(start.ledger_id, start.entry_id)
        for index, name in enumerate(names):
            consumer = Subscribed(self._session, name, index if is_partitioned else topic.partition, self._arrived)
            command = requests.subscribe(
                self._session.next_id(),
                name,
                self._subscription,
                consumer.consumer_id,
                durable=False,
                consumer_name=self._parameters.name,
            )
            command.subscribe.start_message_id.CopyFrom(message_id_data(begin))
            if start is not None and start.batch_index >= 0:
                command.subscribe.start_message_id.batch_index = start.batch_index
            await self.subscribe(consumer, command)
        self.grant()

    async def on_text(self, text: str) -> None:
        """Counts an acknowledgement of the client, whatever it names, as the room for one more message."""
        try:
            command = consumer_commands.parse(text)
        except BadCommand as error:
            self.refuse(error)
            return
        if command.type == "isEndOfTopic":
            self.end_of_topic()
        else:
            self._pending = max(0, self._pending - 1)
        self.outbox.wake()
        self.grant()

    def credit(self) -> int:
        """Returns the room for messages without an acknowledgement."""
        return self._queue_size - self._pending

    def is_wanted(self, arrived: Arrived, content: Content) -> bool:
        """Leaves out the message to begin after, and those before it."""
        start = self._parameters.start
        if start is None or arrived.position > start[:2]:
            return True
        return arrived.position == start[:2] and content.batch_index > start.batch_index >= 0

    def is_accepted(self, arrived: Arrived, opened: Opened) -> bool:
        """Takes none."""
        return False

    def on_delivered(self, current: Current) -> None:
        """Counts a message, and moves the reader's cursor."""
        self._pending += 1
        if current.is_noted:
            return
        ack = requests.ack(current.arrived.consumer.consumer_id, current.positions[-1:], cumulative=True)
        self._session.send(command_frame(ack))
