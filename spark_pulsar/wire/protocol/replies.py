"""Refusals: the one right way to say no to each command, and reading an answer that may be one (A1). Good answers are
in `commands`, with the fields that clients rely on (J1). No error has an empty text (G5: `model.errors`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from spark_pulsar.model.errors import PulsarError, UnknownError, error_from_wire
from spark_pulsar.wire.protocol import commands, transactions
from spark_pulsar.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandConsumerStatsResponse,
    CommandGetOrCreateSchemaResponse,
    CommandGetSchemaResponse,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
)

_RESPONSES: Final[Mapping[int, Callable[..., Message]]] = {
    BaseCommand.GET_SCHEMA: CommandGetSchemaResponse,
    BaseCommand.GET_OR_CREATE_SCHEMA: CommandGetOrCreateSchemaResponse,
    BaseCommand.CONSUMER_STATS: CommandConsumerStatsResponse,
}
"""Contents of answers that carry an error inside, by the command that they answer."""


def refusal(command: BaseCommand, cause: PulsarError) -> BaseCommand | None:
    """Returns the answer that reports to the sender of `command` what went wrong; None for commands that get none (C6).

    Commands with a response message of their own carry the error inside it, as clients wait for exactly that; SEND
    gets SEND_ERROR, an ACK with request id ACK_RESPONSE; everything else with a request id gets ERROR.
    """
    kind = command.type
    if kind == BaseCommand.SEND:
        send = command.send
        return commands.send_error(send.producer_id, max(send.sequence_id, send.highest_sequence_id), cause)
    request_id = commands.request_id_of(command)
    if request_id is None:
        return None
    if kind == BaseCommand.LOOKUP:
        return commands.lookup_failed(request_id, cause)
    if kind == BaseCommand.PARTITIONED_METADATA:
        return commands.partition_metadata_failed(request_id, cause)
    if kind == BaseCommand.ACK:
        return commands.ack_response(command.ack.consumer_id, request_id, cause)
    if kind in transactions.COMMANDS:
        return transactions.refused(command, cause)
    if kind in _RESPONSES:
        code, text = commands.wire_code(cause), cause.message
        return commands.command_of(_RESPONSES[kind](request_id=request_id, error_code=code, error_message=text))
    return commands.error(request_id, cause)


def error_of(command: BaseCommand) -> PulsarError | None:
    """Returns the error that a broker's answer carries, None when it is a good one. A number of the future is an error
    too."""
    kind = command.type
    content = getattr(command, commands.FIELD_OF[kind])
    if kind == BaseCommand.LOOKUP_RESPONSE:
        if content.HasField("response") and content.response != CommandLookupTopicResponse.Failed:
            return None
        return error_from_wire(_number(content, "error") or 0, content.message)
    fields = content.DESCRIPTOR.fields_by_name
    for code, text in (("error", "message"), ("error_code", "error_message")):
        if code in fields:
            number = _number(content, code)
            if number is not None:
                return error_from_wire(number, getattr(content, text))
    if kind in (BaseCommand.ERROR, BaseCommand.SEND_ERROR):
        return UnknownError(content.message)
    if kind == BaseCommand.PARTITIONED_METADATA_RESPONSE and (
        not content.HasField("response") or content.response == CommandPartitionedTopicMetadataResponse.Failed
    ):
        return error_from_wire(content.error, content.message)
    return None


def _number(content: Message, field: str) -> int | None:
    """Returns the number in an enum's field, also one that this version of the protocol has no name for; None when
    absent."""
    if content.HasField(field):
        number: int = getattr(content, field)
        return number
    tag = content.DESCRIPTOR.fields_by_name[field].number
    unknown: Any = UnknownFieldSet(content)  # the stubs do not know that it can be walked
    return next(
        (
            unknown_field.data
            for unknown_field in unknown
            if unknown_field.field_number == tag and unknown_field.wire_type == 0
        ),
        None,
    )
