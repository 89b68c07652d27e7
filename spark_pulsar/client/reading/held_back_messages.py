"""The proof that a reader on a Shared or Key_Shared subscription was delivered everything (READ-41).

Such a subscription holds back messages that have a delivery time, passes over them, and delivers them later. The reader
acknowledges the messages that have come. The broker acknowledges those that it never delivers (markers, aborted
messages), so that the cursor stands behind the newest entry that has come if nothing was held back, and before it else.
"""

import threading
from typing import Final

from spark_pulsar.client.connections.connection import Connection
from spark_pulsar.client.connections.demultiplexer import next_id
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import DeliveryHeldBack
from spark_pulsar.client.reading.attached_consumers import message_id
from spark_pulsar.model.positions.ids import MessageId, Position
from spark_pulsar.wire.entries.entry_blocks import EntryBlock
from spark_pulsar.wire.protocol import requests

_ATTEMPTS: Final = 5
_PAUSE_S: Final = 0.1


class HeldBack:
    """One reader's entries, acknowledged as they come."""

    def __init__(self, topic: str, connection: Connection, consumer_id: int) -> None:
        self._topic = topic
        self._connection = connection
        self._consumer_id = consumer_id
        self._newest = Position(-1, -1)

    def check(self, block: EntryBlock, deadline: Deadline) -> None:
        """Acknowledges the entries of a block. Raises DeliveryHeldBack unless they, and those before, are all that
        there are up to there, in order."""
        positions = [Position(*ids) for ids in zip(block.ledger_ids, block.entry_ids, strict=True)]
        for position in positions:
            if position <= self._newest:
                raise self.error(MessageId(*position))
            self._newest = position
        request_id = next_id()
        command = requests.ack(self._consumer_id, positions, request_id=request_id)
        self._connection.request(command, request_id, deadline)
        for attempt in range(_ATTEMPTS):
            cursor = self._cursor(deadline)
            if cursor.position >= self._newest:
                return
            if attempt < _ATTEMPTS - 1:
                threading.Event().wait(_PAUSE_S)  # the broker may still acknowledge messages that it filters
        raise self.error(MessageId(cursor.ledger_id, cursor.entry_id + 1))

    def _cursor(self, deadline: Deadline) -> MessageId:
        """Returns the last entry that is acknowledged without a gap."""
        request_id = next_id()
        command = requests.last_message_id(request_id, self._consumer_id)
        answer = self._connection.request(command, request_id, deadline).getLastMessageIdResponse
        return message_id(answer.consumer_mark_delete_position, -1)

    def error(self, position: MessageId) -> DeliveryHeldBack:
        """Returns the error for an entry that did not come in its place."""
        return DeliveryHeldBack(
            f"{self._topic}: the entry at {position.ledger_id}:{position.entry_id} is not delivered in its place: the "
            "policy subscriptionTypesEnabled of the topic, of its namespace or of the broker lets readers attach only "
            "by Shared or Key_Shared subscriptions, which hold back messages with a delivery time. Allow Failover or "
            "Exclusive, too: pulsar-admin namespaces set-subscription-types-enabled TENANT/NAMESPACE --types "
            "Shared,Failover"
        )
