"""Transactions of a client of `world.World`."""

from collections.abc import Iterable
from typing import Any

from spark_pulsar.model.positions.ids import Position, TransactionId
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import payload_frame
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandAck
from tests.unit.broker.world import TOPIC, Client, entry

ON: dict[str, Any] = {"transactions_enabled": True, "batch_index_acks": True}
"""Configuration of a world with transactions."""
A_MINUTE_MS = 60_000


def begin(client: Client, timeout_ms: int = A_MINUTE_MS, coordinator: int = 0) -> TransactionId:
    """Opens a transaction."""
    client.send(requests.new_transaction(client.request_id(), coordinator, timeout_ms))
    answer = client.expect(BaseCommand.NEW_TXN_RESPONSE)
    assert not answer.HasField("error"), answer
    return TransactionId(answer.txnid_most_bits, answer.txnid_least_bits)


def publish_in(client: Client, txn_id: TransactionId, *texts: str, first: int = 0, producer_id: int = 1) -> None:
    """SENDs in a transaction, in one read of the broker."""
    frames = [
        payload_frame(requests.send(producer_id, first + index, transaction=txn_id), entry(text))
        for index, text in enumerate(texts)
    ]
    client.send_bytes(b"".join(frames))


def ack_in(client: Client, txn_id: TransactionId, *positions: Position, consumer_id: int = 1, **more: Any) -> Any:
    """An ACK in a transaction; ACK_RESPONSE. `more`: `cumulative`, or `bits` and `size` of a batch."""
    request_id = client.request_id()
    kind = CommandAck.Cumulative if more.get("cumulative") else CommandAck.Individual
    command = BaseCommand(type=BaseCommand.ACK)
    command.ack.consumer_id, command.ack.ack_type, command.ack.request_id = consumer_id, kind, request_id
    command.ack.txnid_most_bits, command.ack.txnid_least_bits = txn_id
    for position in positions:
        message_id = command.ack.message_id.add(ledgerId=position.ledger_id, entryId=position.entry_id)
        if "bits" in more:
            message_id.ack_set.append(more["bits"])
            message_id.batch_size = more.get("size", 0)
    client.send(command)
    return next(answer for answer in responses(client) if answer.request_id == request_id)


def responses(client: Client) -> Iterable[Any]:
    """ACK_RESPONSEs that came; other effects stay."""
    found, kept = [], []
    for effect in client.effects:
        command = getattr(effect, "command", None)
        if command is not None and command.type == BaseCommand.ACK_RESPONSE:
            found.append(command.ackResponse)
        else:
            kept.append(effect)
    client.effects = kept
    return found


def end(client: Client, txn_id: TransactionId, *, commit: bool = True) -> Any:
    """Ends a transaction; END_TXN_RESPONSE. What else comes stays."""
    client.send(requests.end_transaction(client.request_id(), txn_id, commit=commit))
    return take_end(client)


def take_end(client: Client) -> Any:
    """Takes END_TXN_RESPONSE from what came."""
    for effect in client.effects:
        command = getattr(effect, "command", None)
        if command is not None and command.type == BaseCommand.END_TXN_RESPONSE:
            client.effects.remove(effect)
            return command.endTxnResponse
    raise AssertionError(f"no END_TXN_RESPONSE among {client.effects}")


def abort(client: Client, txn_id: TransactionId) -> Any:
    """Aborts a transaction; END_TXN_RESPONSE."""
    return end(client, txn_id, commit=False)


def ready(client: Client, *, subscription_type: int = 1, topic: str = TOPIC, permits: int = 1_000) -> None:
    """Opens a producer and, from the earliest entry on, a consumer."""
    client.open_producer(topic)
    client.open_consumer(topic=topic, permits=permits, subscription_type=subscription_type)
