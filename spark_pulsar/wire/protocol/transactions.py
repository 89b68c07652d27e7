"""Answers to the commands of transactions: each has a response of its own, which carries the error, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from spark_pulsar.model.positions.ids import TransactionId
from spark_pulsar.wire import pulsar_api_pb2 as api
from spark_pulsar.wire.protocol.commands import FIELD_OF, command_of, wire_code
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from spark_pulsar.model.errors import PulsarError

_RESPONSES: Final[Mapping[type[Any], type[Any]]] = {
    api.CommandNewTxn: api.CommandNewTxnResponse,
    api.CommandAddPartitionToTxn: api.CommandAddPartitionToTxnResponse,
    api.CommandAddSubscriptionToTxn: api.CommandAddSubscriptionToTxnResponse,
    api.CommandEndTxn: api.CommandEndTxnResponse,
    api.CommandEndTxnOnPartition: api.CommandEndTxnOnPartitionResponse,
    api.CommandEndTxnOnSubscription: api.CommandEndTxnOnSubscriptionResponse,
}

COMMANDS: Final = frozenset(
    {
        BaseCommand.NEW_TXN,
        BaseCommand.ADD_PARTITION_TO_TXN,
        BaseCommand.ADD_SUBSCRIPTION_TO_TXN,
        BaseCommand.END_TXN,
        BaseCommand.END_TXN_ON_PARTITION,
        BaseCommand.END_TXN_ON_SUBSCRIPTION,
    }
)
"""Commands that `refused` answers."""


def coordinator_connected(request_id: int) -> BaseCommand:
    """TC_CLIENT_CONNECT_RESPONSE: the coordinator is here."""
    return command_of(api.CommandTcClientConnectResponse(request_id=request_id))


def answers(command: Any, txn_id: TransactionId) -> tuple[BaseCommand, Callable[[PulsarError], BaseCommand]]:
    """Returns the good answer to a command, and what makes the answer with an error."""
    response = _RESPONSES[type(command)]

    def refuse(cause: PulsarError) -> BaseCommand:
        answer: Message = response(
            request_id=command.request_id,
            txnid_least_bits=txn_id.least,
            txnid_most_bits=txn_id.most,
            error=wire_code(cause),
            message=cause.message,
        )
        return command_of(answer)

    good = response(request_id=command.request_id, txnid_least_bits=txn_id.least, txnid_most_bits=txn_id.most)
    return command_of(good), refuse


def refused(command: BaseCommand, cause: PulsarError) -> BaseCommand:
    """Returns the answer with an error to a command of `COMMANDS`."""
    content = getattr(command, FIELD_OF[command.type])
    if command.type == BaseCommand.NEW_TXN:
        txn_id = TransactionId(content.tc_id, 0)
    else:
        txn_id = TransactionId(content.txnid_most_bits, content.txnid_least_bits)
    return answers(content, txn_id)[1](cause)
