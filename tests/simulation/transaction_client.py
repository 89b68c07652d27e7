"""Transactions of a client, as official clients keep them: begun, used, ended, and known to be over by the answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_pulsar.model.positions.ids import TransactionId
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.commands import command_of
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandAddSubscriptionToTxn, Subscription

if TYPE_CHECKING:
    from .actors import Client
    from .transactions import TxnId


@dataclass(slots=True, eq=False)
class Known:
    """A transaction that its client has begun and not heard the end of."""

    txn_id: TxnId
    added: set[str | tuple[str, str]] = field(default_factory=set)
    """Topics and subscriptions that were added to it."""
    is_ending: bool = False
    """True when END_TXN was sent, on whichever connection."""


class ClientTransactions:
    """Transactions of one client; they outlive its connections."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.open: dict[TxnId, Known] = {}
        self.over: list[TxnId] = []
        """Those that the client knows to have ended."""
        self._ending: dict[int, TxnId] = {}
        """By request id."""

    def begin(self, timeout_ms: int, coordinator: int = 0) -> None:
        """NEW_TXN; a client asks for its coordinator first."""
        client = self._client
        client.tell(requests.connect_coordinator(client.request_id(), coordinator))
        client.tell(requests.new_transaction(client.request_id(), coordinator, timeout_ms))

    def add_topic(self, known: Known, topic: str) -> None:
        """ADD_PARTITION_TO_TXN, once."""
        if topic not in known.added:
            known.added.add(topic)
            txn_id = TransactionId(*known.txn_id)
            self._client.tell(requests.add_partitions(self._client.request_id(), txn_id, [topic]))

    def add_subscription(self, known: Known, topic: str, name: str) -> None:
        """ADD_SUBSCRIPTION_TO_TXN, once."""
        if (topic, name) not in known.added:
            known.added.add((topic, name))
            most, least = known.txn_id
            command = CommandAddSubscriptionToTxn(
                request_id=self._client.request_id(),
                txnid_most_bits=most,
                txnid_least_bits=least,
                subscription=[Subscription(topic=topic, subscription=name)],
            )
            self._client.tell(command_of(command))

    def end(self, txn_id: TxnId, *, commit: bool) -> None:
        """END_TXN."""
        if txn_id in self.open:
            self.open[txn_id].is_ending = True
        request_id = self._client.request_id()
        self._ending[request_id] = txn_id
        self._client.tell(requests.end_transaction(request_id, TransactionId(*txn_id), commit=commit))

    def leave(self) -> None:
        """The connection is gone, with all answers that were to come."""
        self._ending.clear()

    def hear(self, command: BaseCommand) -> None:
        """An answer came, perhaps one about transactions."""
        if command.type == BaseCommand.NEW_TXN_RESPONSE:
            answer: Any = command.newTxnResponse
            if not answer.HasField("error"):
                txn_id = (answer.txnid_most_bits, answer.txnid_least_bits)
                self.open[txn_id] = Known(txn_id)
        elif command.type == BaseCommand.END_TXN_RESPONSE:
            ended = self._ending.pop(command.endTxnResponse.request_id, None)
            if ended is not None and self.open.pop(ended, None) is not None:
                self.over.append(ended)
