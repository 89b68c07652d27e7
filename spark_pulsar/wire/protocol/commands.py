"""Commands that a broker sends, each with every field that clients rely on (J1), and the request id that it answers
(A1). No bytes in here.

The core builds its answers with these constructors and never sets fields itself, so what must be present is decided in
one place. `requests` has the commands that a client sends; `frames` distinguishes a type of another version from a
malformed frame (A14).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from google.protobuf.message import Message

from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.limits import MAX_MESSAGE_SIZE_BYTES, PROTOCOL_VERSION
from spark_pulsar.model.positions.ids import MessageId, Position, unsigned
from spark_pulsar.wire import pulsar_api_pb2 as api
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, FeatureFlags, MessageIdData, Schema, ServerError

NO_REQUEST: Final = (1 << 64) - 1
"""The request id of commands that answer no request."""

FIELD_OF: Final[Mapping[int, str]] = {
    number: field.name for number, field in BaseCommand.DESCRIPTOR.fields_by_number.items() if field.message_type
}
"""The sub-message of each command type: its field number is the type's number."""

_TYPE_OF: Final[Mapping[str, int]] = {
    field.message_type.full_name: number
    for number, field in BaseCommand.DESCRIPTOR.fields_by_number.items()
    if field.message_type
}
"""The command type of each sub-message, by its name."""

_WITH_REQUEST_ID: Final = frozenset(
    number
    for number, field in BaseCommand.DESCRIPTOR.fields_by_number.items()
    if field.message_type and "request_id" in field.message_type.fields_by_name
)


def request_id_of(command: BaseCommand) -> int | None:
    """Returns the request id that `command` carries, None when its type has none or it is absent (an ACK without
    receipt)."""
    if command.type not in _WITH_REQUEST_ID:
        return None
    content = getattr(command, FIELD_OF[command.type])
    return int(content.request_id) if content.HasField("request_id") else None


def command_of(content: Message) -> BaseCommand:
    """Returns the command with a content, whose type is the content's. A field of the content that was made of None is
    absent."""
    number = _TYPE_OF[content.DESCRIPTOR.full_name]
    fields: dict[str, Any] = {"type": number, FIELD_OF[number]: content}
    return BaseCommand(**fields)


def message_id_data(position: Position) -> MessageIdData:
    """Returns the id of an entry as it goes over the wire."""
    return MessageIdData(ledgerId=unsigned(position.ledger_id), entryId=unsigned(position.entry_id))


def wire_code(error: PulsarError) -> ServerError.ValueType:
    """Returns the code of an error in the type that the generated classes want."""
    return cast("ServerError.ValueType", int(error.code))


# ---- connection -------------------------------------------------------------------------------------------------


def connected(
    client_version: int,
    server_version: str,
    max_message_size_bytes: int = MAX_MESSAGE_SIZE_BYTES,
    features: FeatureFlags | None = None,
) -> BaseCommand:
    """CONNECTED to a client that speaks protocol `client_version`; the lower of both versions is agreed on (A15,
    J2)."""
    return command_of(
        api.CommandConnected(
            server_version=server_version,
            protocol_version=min(client_version, PROTOCOL_VERSION),
            max_message_size=max_message_size_bytes,
            feature_flags=features,
        )
    )


def auth_challenge(method: str, data: bytes, server_version: str | None, protocol_version: int) -> BaseCommand:
    """AUTH_CHALLENGE: requests credentials; only to a client that supports_auth_refresh."""
    challenge = api.AuthData(auth_method_name=method, auth_data=data)
    return command_of(
        api.CommandAuthChallenge(server_version=server_version, challenge=challenge, protocol_version=protocol_version)
    )


def ping() -> BaseCommand:
    """PING, from either side."""
    return command_of(api.CommandPing())


def pong() -> BaseCommand:
    """PONG, the answer to PING."""
    return command_of(api.CommandPong())


# ---- generic replies --------------------------------------------------------------------------------------------


def success(request_id: int) -> BaseCommand:
    """SUCCESS to a request whose answer carries nothing."""
    return command_of(api.CommandSuccess(request_id=request_id))


def error(request_id: int, cause: PulsarError) -> BaseCommand:
    """ERROR to a request; `NO_REQUEST` when it answers none."""
    return command_of(api.CommandError(request_id=request_id, error=wire_code(cause), message=cause.message))


# ---- finding topics ---------------------------------------------------------------------------------------------


def partition_metadata(request_id: int, partitions: int) -> BaseCommand:
    """PARTITIONED_METADATA_RESPONSE; 0 partitions = not partitioned, and the field is present all the same."""
    response = api.CommandPartitionedTopicMetadataResponse.Success
    return command_of(
        api.CommandPartitionedTopicMetadataResponse(partitions=partitions, request_id=request_id, response=response)
    )


def partition_metadata_failed(request_id: int, cause: PulsarError) -> BaseCommand:
    """PARTITIONED_METADATA_RESPONSE with an error."""
    return command_of(
        api.CommandPartitionedTopicMetadataResponse(
            request_id=request_id,
            response=api.CommandPartitionedTopicMetadataResponse.Failed,
            error=wire_code(cause),
            message=cause.message,
        )
    )


def lookup_connect(
    request_id: int,
    service_url: str | None,
    service_url_tls: str | None = None,
    authoritative: bool = True,
    proxy_through_service_url: bool = False,
) -> BaseCommand:
    """LOOKUP_RESPONSE: the topic is served at this address."""
    return command_of(
        api.CommandLookupTopicResponse(
            brokerServiceUrl=service_url,
            brokerServiceUrlTls=service_url_tls,
            response=api.CommandLookupTopicResponse.Connect,
            request_id=request_id,
            authoritative=authoritative,
            proxy_through_service_url=proxy_through_service_url,
        )
    )


def lookup_failed(request_id: int, cause: PulsarError) -> BaseCommand:
    """LOOKUP_RESPONSE with an error."""
    return command_of(
        api.CommandLookupTopicResponse(
            response=api.CommandLookupTopicResponse.Failed,
            request_id=request_id,
            error=wire_code(cause),
            message=cause.message,
        )
    )


def topics_of_namespace(
    request_id: int, topics: Iterable[str], topics_hash: str, filtered: bool = False, changed: bool = True
) -> BaseCommand:
    """GET_TOPICS_OF_NAMESPACE_RESPONSE; give no topics when the client's hash still holds (`changed` false)."""
    return command_of(
        api.CommandGetTopicsOfNamespaceResponse(
            request_id=request_id, topics=topics, filtered=filtered, topics_hash=topics_hash, changed=changed
        )
    )


def watch_topic_list_success(request_id: int, watcher_id: int, topics: Iterable[str], topics_hash: str) -> BaseCommand:
    """WATCH_TOPIC_LIST_SUCCESS with the names that match now."""
    return command_of(
        api.CommandWatchTopicListSuccess(
            request_id=request_id, watcher_id=watcher_id, topic=topics, topics_hash=topics_hash
        )
    )


def watch_topic_update(watcher_id: int, added: Iterable[str], removed: Iterable[str], topics_hash: str) -> BaseCommand:
    """WATCH_TOPIC_UPDATE: topics created and deleted since the last one."""
    return command_of(
        api.CommandWatchTopicUpdate(
            watcher_id=watcher_id, new_topics=added, deleted_topics=removed, topics_hash=topics_hash
        )
    )


# ---- producing --------------------------------------------------------------------------------------------------


def producer_success(
    request_id: int,
    producer_name: str,
    last_sequence_id: int = -1,
    schema_version: bytes = b"",
    topic_epoch: int | None = None,
    ready: bool = True,
) -> BaseCommand:
    """PRODUCER_SUCCESS; `ready` false = queued for exclusive access, a second one follows."""
    return command_of(
        api.CommandProducerSuccess(
            request_id=request_id,
            producer_name=producer_name,
            last_sequence_id=last_sequence_id,
            schema_version=schema_version,
            topic_epoch=topic_epoch,
            producer_ready=ready,
        )
    )


def send_error(producer_id: int, sequence_id: int, cause: PulsarError) -> BaseCommand:
    """SEND_ERROR of one entry. Most clients drop the connection on it."""
    return command_of(
        api.CommandSendError(
            producer_id=producer_id, sequence_id=sequence_id, error=wire_code(cause), message=cause.message
        )
    )


def close_producer(producer_id: int, request_id: int = NO_REQUEST, service_url: str | None = None) -> BaseCommand:
    """CLOSE_PRODUCER, from a broker without request id; `service_url`: reconnect there without a lookup."""
    return command_of(
        api.CommandCloseProducer(producer_id=producer_id, request_id=request_id, assignedBrokerServiceUrl=service_url)
    )


# ---- consuming --------------------------------------------------------------------------------------------------


def ack_response(consumer_id: int, request_id: int, cause: PulsarError | None = None) -> BaseCommand:
    """ACK_RESPONSE to an ACK with a request id; a `cause` fills both error and message (Go reads the text)."""
    answer = api.CommandAckResponse(consumer_id=consumer_id, request_id=request_id)
    if cause is not None:
        answer.error = wire_code(cause)
        answer.message = cause.message
    return command_of(answer)


def last_message_id(request_id: int, last: MessageId, mark_delete: Position) -> BaseCommand:
    """GET_LAST_MESSAGE_ID_RESPONSE. `last` -1:-1 = empty; the mark-delete position is always there (C13)."""
    data = message_id_data(last.position)
    data.partition, data.batch_index = last.partition, last.batch_index  # also those that are -1 (RD-3)
    return command_of(
        api.CommandGetLastMessageIdResponse(
            last_message_id=data,
            request_id=request_id,
            consumer_mark_delete_position=message_id_data(mark_delete),
        )
    )


def active_consumer_change(consumer_id: int, is_active: bool) -> BaseCommand:
    """ACTIVE_CONSUMER_CHANGE, on Failover subscriptions."""
    return command_of(api.CommandActiveConsumerChange(consumer_id=consumer_id, is_active=is_active))


def reached_end_of_topic(consumer_id: int) -> BaseCommand:
    """REACHED_END_OF_TOPIC; C++, Python and Go clients close the connection on it."""
    return command_of(api.CommandReachedEndOfTopic(consumer_id=consumer_id))


def close_consumer(consumer_id: int, request_id: int = NO_REQUEST, service_url: str | None = None) -> BaseCommand:
    """CLOSE_CONSUMER, from a broker without request id; `service_url`: reconnect there without a lookup (A7)."""
    return command_of(
        api.CommandCloseConsumer(consumer_id=consumer_id, request_id=request_id, assignedBrokerServiceUrl=service_url)
    )


# ---- schema registry --------------------------------------------------------------------------------------------


def schema_found(request_id: int, schema: Schema, schema_version: bytes) -> BaseCommand:
    """GET_SCHEMA_RESPONSE with a schema and its version."""
    return command_of(api.CommandGetSchemaResponse(request_id=request_id, schema=schema, schema_version=schema_version))


def schema_created(request_id: int, schema_version: bytes) -> BaseCommand:
    """GET_OR_CREATE_SCHEMA_RESPONSE with the version that now stands."""
    return command_of(api.CommandGetOrCreateSchemaResponse(request_id=request_id, schema_version=schema_version))
