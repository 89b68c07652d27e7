"""Commands that a broker sends, each with every field that clients rely on (wire-protocol 7.2). No bytes in here.

The core builds its answers with these constructors and never sets fields itself, so what must be present is decided in
one place. `requests` has the commands that a client sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, cast

from spark_pulsar.model.errors import PulsarError
from spark_pulsar.model.ids import MessageId, Position, unsigned
from spark_pulsar.model.limits import MAX_MESSAGE_SIZE_BYTES, PROTOCOL_VERSION
from spark_pulsar.wire import ack_sets
from spark_pulsar.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadataResponse,
    FeatureFlags,
    MessageIdData,
    Schema,
    ServerError,
)

NO_REQUEST: Final = (1 << 64) - 1
"""The request id of commands that answer no request."""

FIELD_OF: Final[Mapping[int, str]] = {
    number: field.name for number, field in BaseCommand.DESCRIPTOR.fields_by_number.items() if field.message_type
}
"""The sub-message of each command type: its field number is the type's number."""

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
    """CONNECTED to a client that speaks protocol `client_version`; the lower of both versions is agreed on."""
    command = BaseCommand(type=BaseCommand.CONNECTED)
    content = command.connected
    content.server_version = server_version
    content.protocol_version = min(client_version, PROTOCOL_VERSION)
    content.max_message_size = max_message_size_bytes
    if features is not None:
        content.feature_flags.CopyFrom(features)
    return command


def auth_challenge(method: str, data: bytes, server_version: str, protocol_version: int) -> BaseCommand:
    """AUTH_CHALLENGE: asks for credentials; only to a client that supports_auth_refresh."""
    command = BaseCommand(type=BaseCommand.AUTH_CHALLENGE)
    content = command.authChallenge
    content.server_version = server_version
    content.challenge.auth_method_name = method
    content.challenge.auth_data = data
    content.protocol_version = protocol_version
    return command


def ping() -> BaseCommand:
    """PING, from either side."""
    command = BaseCommand(type=BaseCommand.PING)
    command.ping.SetInParent()
    return command


def pong() -> BaseCommand:
    """PONG, the answer to PING."""
    command = BaseCommand(type=BaseCommand.PONG)
    command.pong.SetInParent()
    return command


# ---- generic replies --------------------------------------------------------------------------------------------


def success(request_id: int) -> BaseCommand:
    """SUCCESS to a request whose answer carries nothing."""
    command = BaseCommand(type=BaseCommand.SUCCESS)
    command.success.request_id = request_id
    return command


def error(request_id: int, cause: PulsarError) -> BaseCommand:
    """ERROR to a request; `NO_REQUEST` when it answers none."""
    command = BaseCommand(type=BaseCommand.ERROR)
    content = command.error
    content.request_id = request_id
    content.error = wire_code(cause)
    content.message = cause.message
    return command


# ---- finding topics ---------------------------------------------------------------------------------------------


def partition_metadata(request_id: int, partitions: int) -> BaseCommand:
    """PARTITIONED_METADATA_RESPONSE; 0 partitions = not partitioned, and the field is present all the same."""
    command = BaseCommand(type=BaseCommand.PARTITIONED_METADATA_RESPONSE)
    content = command.partitionMetadataResponse
    content.partitions = partitions
    content.request_id = request_id
    content.response = CommandPartitionedTopicMetadataResponse.Success
    return command


def partition_metadata_failed(request_id: int, cause: PulsarError) -> BaseCommand:
    """PARTITIONED_METADATA_RESPONSE with an error."""
    command = BaseCommand(type=BaseCommand.PARTITIONED_METADATA_RESPONSE)
    content = command.partitionMetadataResponse
    content.request_id = request_id
    content.response = CommandPartitionedTopicMetadataResponse.Failed
    content.error = wire_code(cause)
    content.message = cause.message
    return command


def lookup_connect(
    request_id: int,
    service_url: str,
    service_url_tls: str | None = None,
    authoritative: bool = True,
    proxy_through_service_url: bool = False,
) -> BaseCommand:
    """LOOKUP_RESPONSE: the topic is served at this address."""
    command = BaseCommand(type=BaseCommand.LOOKUP_RESPONSE)
    content = command.lookupTopicResponse
    content.brokerServiceUrl = service_url
    if service_url_tls is not None:
        content.brokerServiceUrlTls = service_url_tls
    content.response = CommandLookupTopicResponse.Connect
    content.request_id = request_id
    content.authoritative = authoritative
    content.proxy_through_service_url = proxy_through_service_url
    return command


def lookup_failed(request_id: int, cause: PulsarError) -> BaseCommand:
    """LOOKUP_RESPONSE with an error."""
    command = BaseCommand(type=BaseCommand.LOOKUP_RESPONSE)
    content = command.lookupTopicResponse
    content.response = CommandLookupTopicResponse.Failed
    content.request_id = request_id
    content.error = wire_code(cause)
    content.message = cause.message
    return command


def topics_of_namespace(
    request_id: int, topics: Iterable[str], topics_hash: str, filtered: bool = False, changed: bool = True
) -> BaseCommand:
    """GET_TOPICS_OF_NAMESPACE_RESPONSE; give no topics when the client's hash still holds (`changed` false)."""
    command = BaseCommand(type=BaseCommand.GET_TOPICS_OF_NAMESPACE_RESPONSE)
    content = command.getTopicsOfNamespaceResponse
    content.request_id = request_id
    content.topics.extend(topics)
    content.filtered = filtered
    content.topics_hash = topics_hash
    content.changed = changed
    return command


def watch_topic_list_success(request_id: int, watcher_id: int, topics: Iterable[str], topics_hash: str) -> BaseCommand:
    """WATCH_TOPIC_LIST_SUCCESS with the names that match now."""
    command = BaseCommand(type=BaseCommand.WATCH_TOPIC_LIST_SUCCESS)
    content = command.watchTopicListSuccess
    content.request_id = request_id
    content.watcher_id = watcher_id
    content.topic.extend(topics)
    content.topics_hash = topics_hash
    return command


def watch_topic_update(watcher_id: int, added: Iterable[str], removed: Iterable[str], topics_hash: str) -> BaseCommand:
    """WATCH_TOPIC_UPDATE: what came and went since the last one."""
    command = BaseCommand(type=BaseCommand.WATCH_TOPIC_UPDATE)
    content = command.watchTopicUpdate
    content.watcher_id = watcher_id
    content.new_topics.extend(added)
    content.deleted_topics.extend(removed)
    content.topics_hash = topics_hash
    return command


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
    command = BaseCommand(type=BaseCommand.PRODUCER_SUCCESS)
    content = command.producer_success
    content.request_id = request_id
    content.producer_name = producer_name
    content.last_sequence_id = last_sequence_id
    content.schema_version = schema_version
    if topic_epoch is not None:
        content.topic_epoch = topic_epoch
    content.producer_ready = ready
    return command


def send_receipt(producer_id: int, sequence_id: int, position: Position, highest_sequence_id: int = 0) -> BaseCommand:
    """SEND_RECEIPT of one entry; many at once are cheaper through `sends.receipts`. (-1, -1) = dropped duplicate."""
    command = BaseCommand(type=BaseCommand.SEND_RECEIPT)
    content = command.send_receipt
    content.producer_id = producer_id
    content.sequence_id = sequence_id
    content.message_id.ledgerId = unsigned(position.ledger_id)
    content.message_id.entryId = unsigned(position.entry_id)
    content.highest_sequence_id = highest_sequence_id
    return command


def send_error(producer_id: int, sequence_id: int, cause: PulsarError) -> BaseCommand:
    """SEND_ERROR of one entry. Most clients drop the connection on it."""
    command = BaseCommand(type=BaseCommand.SEND_ERROR)
    content = command.send_error
    content.producer_id = producer_id
    content.sequence_id = sequence_id
    content.error = wire_code(cause)
    content.message = cause.message
    return command


def close_producer(producer_id: int, request_id: int = NO_REQUEST, service_url: str | None = None) -> BaseCommand:
    """CLOSE_PRODUCER, from a broker without request id; `service_url`: reconnect there without a lookup."""
    command = BaseCommand(type=BaseCommand.CLOSE_PRODUCER)
    content = command.close_producer
    content.producer_id = producer_id
    content.request_id = request_id
    if service_url is not None:
        content.assignedBrokerServiceUrl = service_url
    return command


# ---- consuming --------------------------------------------------------------------------------------------------


def message(
    consumer_id: int,
    message_id: MessageId,
    redelivery_count: int = 0,
    ack_set: int | None = None,
    consumer_epoch: int | None = None,
) -> BaseCommand:
    """MESSAGE of one entry, without its bytes; many at once are cheaper through `messages.message_frames`."""
    command = BaseCommand(type=BaseCommand.MESSAGE)
    content = command.message
    content.consumer_id = consumer_id
    content.message_id.ledgerId = unsigned(message_id.ledger_id)
    content.message_id.entryId = unsigned(message_id.entry_id)
    content.message_id.partition = message_id.partition
    if redelivery_count:
        content.redelivery_count = redelivery_count
    if ack_set is not None:
        content.ack_set.extend(ack_sets.words(ack_set))
    if consumer_epoch is not None:
        content.consumer_epoch = consumer_epoch
    return command


def ack_response(consumer_id: int, request_id: int, cause: PulsarError | None = None) -> BaseCommand:
    """ACK_RESPONSE to an ACK with a request id; a `cause` fills both error and message (Go looks at the text)."""
    command = BaseCommand(type=BaseCommand.ACK_RESPONSE)
    content = command.ackResponse
    content.consumer_id = consumer_id
    if cause is not None:
        content.error = wire_code(cause)
        content.message = cause.message
    content.request_id = request_id
    return command


def last_message_id(request_id: int, last: MessageId, mark_delete: Position) -> BaseCommand:
    """GET_LAST_MESSAGE_ID_RESPONSE. `last` -1:-1 = empty; the mark-delete position is always there (C13)."""
    command = BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE)
    content = command.getLastMessageIdResponse
    fill_message_id(content.last_message_id, last)
    content.request_id = request_id
    content.consumer_mark_delete_position.ledgerId = unsigned(mark_delete.ledger_id)
    content.consumer_mark_delete_position.entryId = unsigned(mark_delete.entry_id)
    return command


def active_consumer_change(consumer_id: int, is_active: bool) -> BaseCommand:
    """ACTIVE_CONSUMER_CHANGE, on Failover subscriptions."""
    command = BaseCommand(type=BaseCommand.ACTIVE_CONSUMER_CHANGE)
    content = command.active_consumer_change
    content.consumer_id = consumer_id
    content.is_active = is_active
    return command


def reached_end_of_topic(consumer_id: int) -> BaseCommand:
    """REACHED_END_OF_TOPIC; C++, Python and Go clients close the connection on it."""
    command = BaseCommand(type=BaseCommand.REACHED_END_OF_TOPIC)
    command.reachedEndOfTopic.consumer_id = consumer_id
    return command


def close_consumer(consumer_id: int, request_id: int = NO_REQUEST, service_url: str | None = None) -> BaseCommand:
    """CLOSE_CONSUMER, from a broker without request id; `service_url`: reconnect there without a lookup."""
    command = BaseCommand(type=BaseCommand.CLOSE_CONSUMER)
    content = command.close_consumer
    content.consumer_id = consumer_id
    content.request_id = request_id
    if service_url is not None:
        content.assignedBrokerServiceUrl = service_url
    return command


# ---- schema registry --------------------------------------------------------------------------------------------


def schema_found(request_id: int, schema: Schema, schema_version: bytes) -> BaseCommand:
    """GET_SCHEMA_RESPONSE with a schema and its version."""
    command = BaseCommand(type=BaseCommand.GET_SCHEMA_RESPONSE)
    content = command.getSchemaResponse
    content.request_id = request_id
    content.schema.CopyFrom(schema)
    content.schema_version = schema_version
    return command


def schema_created(request_id: int, schema_version: bytes) -> BaseCommand:
    """GET_OR_CREATE_SCHEMA_RESPONSE with the version that now stands."""
    command = BaseCommand(type=BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE)
    content = command.getOrCreateSchemaResponse
    content.request_id = request_id
    content.schema_version = schema_version
    return command


# ---- shared -----------------------------------------------------------------------------------------------------


def fill_message_id(data: MessageIdData, message_id: MessageId) -> None:
    """Writes all four parts of an id, also those that are -1 (wire-protocol 5.11)."""
    data.ledgerId = unsigned(message_id.ledger_id)
    data.entryId = unsigned(message_id.entry_id)
    data.partition = message_id.partition
    data.batch_index = message_id.batch_index
