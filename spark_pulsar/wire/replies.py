"""Refusals: the one right way to say no to each command, and reading an answer that may be one."""

from __future__ import annotations

from spark_pulsar.model.errors import PulsarError, error_from_wire
from spark_pulsar.wire import commands
from spark_pulsar.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
)


def refusal(command: BaseCommand, cause: PulsarError) -> BaseCommand | None:
    """The answer that tells the sender of `command` what went wrong; None for commands that get none.

    Commands with a response message of their own carry the error inside it, as clients wait for exactly that; SEND
    gets SEND_ERROR, an ACK with request id ACK_RESPONSE; everything else with a request id gets ERROR.
    """
    kind = command.type
    if kind == BaseCommand.SEND:
        return commands.send_error(command.send.producer_id, command.send.sequence_id, cause)
    request_id = commands.request_id_of(command)
    if request_id is None:
        return None
    if kind == BaseCommand.LOOKUP:
        return commands.lookup_failed(request_id, cause)
    if kind == BaseCommand.PARTITIONED_METADATA:
        return commands.partition_metadata_failed(request_id, cause)
    if kind == BaseCommand.ACK:
        return commands.ack_response(command.ack.consumer_id, request_id, cause)
    if kind == BaseCommand.GET_SCHEMA:
        return _failed_inside(BaseCommand.GET_SCHEMA_RESPONSE, request_id, cause)
    if kind == BaseCommand.GET_OR_CREATE_SCHEMA:
        return _failed_inside(BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE, request_id, cause)
    if kind == BaseCommand.CONSUMER_STATS:
        return _failed_inside(BaseCommand.CONSUMER_STATS_RESPONSE, request_id, cause)
    return commands.error(request_id, cause)


def error_of(command: BaseCommand) -> PulsarError | None:
    """The error that a broker's answer carries, None when it is a good one."""
    kind = command.type
    if kind == BaseCommand.ERROR:
        return error_from_wire(command.error.error, command.error.message)
    if kind == BaseCommand.SEND_ERROR:
        return error_from_wire(command.send_error.error, command.send_error.message)
    if kind == BaseCommand.LOOKUP_RESPONSE:
        lookup = command.lookupTopicResponse
        if lookup.HasField("response") and lookup.response != CommandLookupTopicResponse.Failed:
            return None
        return error_from_wire(lookup.error, lookup.message)
    if kind == BaseCommand.PARTITIONED_METADATA_RESPONSE:
        metadata = command.partitionMetadataResponse
        if metadata.response != CommandPartitionedTopicMetadataResponse.Failed and not metadata.HasField("error"):
            return None
        return error_from_wire(metadata.error, metadata.message)
    content = getattr(command, commands.FIELD_OF[kind])
    fields = content.DESCRIPTOR.fields_by_name
    for code, text in (("error", "message"), ("error_code", "error_message")):
        if code in fields and content.HasField(code):
            return error_from_wire(getattr(content, code), getattr(content, text))
    return None


def _failed_inside(kind: BaseCommand.Type.ValueType, request_id: int, cause: PulsarError) -> BaseCommand:
    command = BaseCommand(type=kind)
    content = getattr(command, commands.FIELD_OF[kind])
    content.request_id = request_id
    content.error_code = commands.wire_code(cause)
    content.error_message = cause.message
    return command
