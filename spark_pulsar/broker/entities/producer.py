"""Producers: a name on a topic, held by a session (PR-2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_pulsar.broker.turn.counter_columns import BYTES_IN, LAST_GROUP, MESSAGES_IN
from spark_pulsar.broker.turn.effects import SendReceipts
from spark_pulsar.model.column_store import ColumnStore, Counter, HasCounters
from spark_pulsar.wire.protocol import commands
from spark_pulsar.wire.pulsar_api_pb2 import ProducerAccessMode

from .meters import Meter

if TYPE_CHECKING:
    from spark_pulsar.wire.sends.send_runs import SendRun

    from .core import Core
    from .session import Session
    from .topic import Topic


@dataclass(slots=True, eq=False, repr=False)
class Producer(HasCounters):
    """One open producer: a name on a topic, held by a session."""

    session: Session
    topic: Topic
    producer_id: int
    name: str
    epoch: int
    properties: dict[str, str]
    connected_ms: int
    access_mode: int = ProducerAccessMode.Shared
    """Access mode (PR-3 ... PR-6)."""
    is_encrypted: bool = False
    """True when the producer says that it encrypts (PR-12)."""
    schema_version: bytes = b""
    """Version of its schema, as PRODUCER_SUCCESS named it; empty without schema (SC-1)."""
    chunks_in: int = 0
    row: int = -1
    """Row of its counters in the table, while it is open."""
    meter: Meter = field(init=False)
    _table: ColumnStore[Producer] | None = None

    def __post_init__(self) -> None:
        HasCounters.__init__(self, (self.topic.ledger.row, 0, 0, 0))
        self.meter = Meter(self.connected_ms)

    messages_in = Counter(MESSAGES_IN)
    bytes_in = Counter(BYTES_IN)
    last_group = Counter(LAST_GROUP)
    """Group that its last entry is durable with; 0 when it sent none."""

    def join(self, table: ColumnStore[Producer]) -> None:
        """Takes the id on the session and the name on the topic; its counters stand in this table until it leaves."""
        self._table, self.row = table, table.claim()
        table.put(self.row, self)
        self.session.producer_rows[self.producer_id] = self.row
        self.session.producers[self.producer_id] = self
        self.session.dropped_producers.pop(self.producer_id, None)
        self.topic.producers[self.name] = self
        self.topic.was_used = True

    def leave(self) -> None:
        """Frees the id and the name; a producer that waits for exclusive access may get the topic (PR-6)."""
        if self._table is not None:
            if self.session.producer_rows.get(self.producer_id) == self.row:
                del self.session.producer_rows[self.producer_id]
            self._table.release(self.row)
            self._table, self.row = None, -1
        if self.session.producers.get(self.producer_id) is self:
            del self.session.producers[self.producer_id]
        if self.topic.producers.get(self.name) is self:
            del self.topic.producers[self.name]
            if self.topic.publish_limit is not None:
                self.topic.publish_limit.remove_producer(self)
            if self.topic.access is not None:
                self.topic.access.left(self)


def send_receipts(core: Core, producer: Producer, sends: SendRun, ledger_id: int, first_entry_id: int) -> None:
    """Sends the receipts of a run of SENDs, if the producer's connection is still there; both ids are -1 for repeated
    entries (DED-3)."""
    session = producer.session
    if session.open:
        core.effects.append(
            SendReceipts(
                session.session_id,
                producer.producer_id,
                ledger_id,
                first_entry_id,
                sends.sequence_ids,
                sends.highest_sequence_ids,
            )
        )


def disconnect_after_receipts(core: Core, producer: Producer) -> None:
    """Closes a producer after the receipts of its SENDs: its client sends again only entries that were not stored."""
    producer.leave()
    producer.session.note_dropped(producer.producer_id)
    core.when_durable(lambda: core.send(producer.session, commands.close_producer(producer.producer_id)))


def disconnect(core: Core, producer: Producer) -> None:
    """Closes a producer; its further SENDs are dropped until the client opens it again."""
    producer.leave()
    producer.session.note_dropped(producer.producer_id)
    core.send(producer.session, commands.close_producer(producer.producer_id))
