"""Commands that a client sends, each with every required field and with what real brokers and ours look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_pulsar.model.ids import MessageId, Position, unsigned
from spark_pulsar.model.limits import PROTOCOL_VERSION
from spark_pulsar.model.schemas import Schema, SchemaType
from spark_pulsar.wire import ack_sets
from spark_pulsar.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandAck,
    CommandGetTopicsOfNamespace,
    CommandSubscribe,
    FeatureFlags,
    KeyValue,
    MessageIdData,
    ProducerAccessMode,
)
from spark_pulsar.wire.pulsar_api_pb2 import Schema as WireSchema


def connect(
    client_version: str,
    auth_method: str = "none",
    auth_data: bytes | None = None,
    proxy_to_broker_url: str | None = None,
    features: FeatureFlags | None = None,
) -> BaseCommand:
    """CONNECT, the first frame. `proxy_to_broker_url` is `host:port` of the broker when a proxy stands between."""
    command = BaseCommand(type=BaseCommand.CONNECT)
    content = command.connect
    content.client_version = client_version
    content.protocol_version = PROTOCOL_VERSION
    content.auth_method_name = auth_method
    if auth_data is not None:
        content.auth_data = auth_data
    if proxy_to_broker_url is not None:
        content.proxy_to_broker_url = proxy_to_broker_url
    if features is not None:
        content.feature_flags.CopyFrom(features)
    return command


def auth_response(client_version: str, auth_method: str, auth_data: bytes) -> BaseCommand:
    """AUTH_RESPONSE: the answer to AUTH_CHALLENGE."""
    command = BaseCommand(type=BaseCommand.AUTH_RESPONSE)
    content = command.authResponse
    content.client_version = client_version
    content.response.auth_method_name = auth_method
    content.response.auth_data = auth_data
    content.protocol_version = PROTOCOL_VERSION
    return command


def partition_metadata(request_id: int, topic: str, create: bool = True) -> BaseCommand:
    """PARTITIONED_METADATA; `create` false asks the broker not to create a missing topic."""
    command = BaseCommand(type=BaseCommand.PARTITIONED_METADATA)
    content = command.partitionMetadata
    content.topic = topic
    content.request_id = request_id
    if not create:
        content.metadata_auto_creation_enabled = False
    return command


def lookup(request_id: int, topic: str, authoritative: bool = False) -> BaseCommand:
    """LOOKUP; `authoritative` is what the redirect before it said."""
    command = BaseCommand(type=BaseCommand.LOOKUP)
    content = command.lookupTopic
    content.topic = topic
    content.request_id = request_id
    content.authoritative = authoritative
    return command


def topics_of_namespace(
    request_id: int,
    namespace: str,
    mode: CommandGetTopicsOfNamespace.Mode.ValueType = CommandGetTopicsOfNamespace.PERSISTENT,
    pattern: str | None = None,
) -> BaseCommand:
    """GET_TOPICS_OF_NAMESPACE of `tenant/namespace`. A broker may ignore `pattern`: filter the answer again."""
    command = BaseCommand(type=BaseCommand.GET_TOPICS_OF_NAMESPACE)
    content = command.getTopicsOfNamespace
    content.request_id = request_id
    content.namespace = namespace
    content.mode = mode
    if pattern is not None:
        content.topics_pattern = pattern
    return command


def get_schema(request_id: int, topic: str, version: bytes | None = None) -> BaseCommand:
    """GET_SCHEMA: the schema with a version of a topic, or without one the last."""
    command = BaseCommand(type=BaseCommand.GET_SCHEMA)
    content = command.getSchema
    content.request_id = request_id
    content.topic = topic
    if version is not None:
        content.schema_version = version
    return command


def get_or_create_schema(request_id: int, topic: str, name: str, schema: Schema) -> BaseCommand:
    """GET_OR_CREATE_SCHEMA: the version of a schema, which the topic gets if it is new and compatible."""
    command = BaseCommand(type=BaseCommand.GET_OR_CREATE_SCHEMA)
    content = command.getOrCreateSchema
    content.request_id = request_id
    content.topic = topic
    fill_schema(content.schema, name, schema)
    return command


def fill_schema(wire: WireSchema, name: str, schema: Schema) -> None:
    """Writes a schema into a command; a type that the wire has no number for goes as None."""
    wire.name = name
    wire.type = WireSchema.Type.ValueType(max(int(schema.type), int(SchemaType.NONE)))
    wire.schema_data = schema.data
    wire.properties.extend(_properties(schema.properties))


def producer(
    request_id: int,
    topic: str,
    producer_id: int,
    name: str | None = None,
    epoch: int = 0,
    user_provided_name: bool | None = None,
    properties: Mapping[str, str] | None = None,
    access_mode: ProducerAccessMode.ValueType = ProducerAccessMode.Shared,
) -> BaseCommand:
    """PRODUCER. Without `name` the broker makes one up; a reconnect repeats that name and adds 1 to `epoch`."""
    command = BaseCommand(type=BaseCommand.PRODUCER)
    content = command.producer
    content.topic = topic
    content.producer_id = producer_id
    content.request_id = request_id
    if name is not None:
        content.producer_name = name
    content.metadata.extend(_properties(properties))
    content.epoch = epoch
    content.user_provided_producer_name = name is not None if user_provided_name is None else user_provided_name
    content.producer_access_mode = access_mode
    return command


def send(
    producer_id: int,
    sequence_id: int,
    message_count: int = 1,
    highest_sequence_id: int | None = None,
    is_chunk: bool = False,
) -> BaseCommand:
    """SEND of one entry; `frames.payload_frame` puts the entry's bytes behind it."""
    command = BaseCommand(type=BaseCommand.SEND)
    content = command.send
    content.producer_id = producer_id
    content.sequence_id = sequence_id
    if message_count != 1:
        content.num_messages = message_count
    if highest_sequence_id is not None:
        content.highest_sequence_id = highest_sequence_id
    if is_chunk:
        content.is_chunk = True
    return command


def close_producer(request_id: int, producer_id: int) -> BaseCommand:
    """CLOSE_PRODUCER, answered by SUCCESS after the receipts of everything sent before."""
    command = BaseCommand(type=BaseCommand.CLOSE_PRODUCER)
    command.close_producer.producer_id = producer_id
    command.close_producer.request_id = request_id
    return command


def subscribe(
    request_id: int,
    topic: str,
    subscription: str,
    consumer_id: int,
    subscription_type: CommandSubscribe.SubType.ValueType = CommandSubscribe.Exclusive,
    *,
    durable: bool = True,
    start: MessageId | None = None,
    initial_position: CommandSubscribe.InitialPosition.ValueType = CommandSubscribe.Latest,
    consumer_name: str | None = None,
    read_compacted: bool = False,
    create_topic: bool = True,
    properties: Mapping[str, str] | None = None,
) -> BaseCommand:
    """SUBSCRIBE. `durable` false is a reader; it begins *at* the entry of `start`, inclusive (wire-protocol 5.10)."""
    command = BaseCommand(type=BaseCommand.SUBSCRIBE)
    content = command.subscribe
    content.topic = topic
    content.subscription = subscription
    content.subType = subscription_type
    content.consumer_id = consumer_id
    content.request_id = request_id
    if consumer_name is not None:
        content.consumer_name = consumer_name
    content.durable = durable
    if start is not None:
        content.start_message_id.ledgerId = unsigned(start.ledger_id)
        content.start_message_id.entryId = unsigned(start.entry_id)
        if start.batch_index >= 0:
            content.start_message_id.batch_index = start.batch_index
    content.metadata.extend(_properties(properties))
    content.read_compacted = read_compacted
    content.initialPosition = initial_position
    content.force_topic_creation = create_topic
    return command


def flow(consumer_id: int, permits: int) -> BaseCommand:
    """FLOW: `permits` more messages, at least 1 (0 closes the connection of a real broker)."""
    command = BaseCommand(type=BaseCommand.FLOW)
    command.flow.consumer_id = consumer_id
    command.flow.messagePermits = permits
    return command


def ack(
    consumer_id: int,
    positions: Iterable[Position],
    *,
    cumulative: bool = False,
    ack_set: int | None = None,
    request_id: int | None = None,
    validation_error: CommandAck.ValidationError.ValueType | None = None,
) -> BaseCommand:
    """ACK of entries; `ack_set` (1 = not acked) speaks for every entry given. With `request_id` an answer comes."""
    command = BaseCommand(type=BaseCommand.ACK)
    content = command.ack
    content.consumer_id = consumer_id
    content.ack_type = CommandAck.Cumulative if cumulative else CommandAck.Individual
    words = ack_sets.words(ack_set) if ack_set is not None else ()
    for position in positions:
        data = content.message_id.add()
        data.ledgerId = unsigned(position.ledger_id)
        data.entryId = unsigned(position.entry_id)
        data.ack_set.extend(words)
    if validation_error is not None:
        content.validation_error = validation_error
    if request_id is not None:
        content.request_id = request_id
    return command


def redeliver(consumer_id: int, positions: Iterable[Position] = ()) -> BaseCommand:
    """REDELIVER_UNACKNOWLEDGED_MESSAGES; none given = everything that this consumer has not acked. No answer."""
    command = BaseCommand(type=BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES)
    content = command.redeliverUnacknowledgedMessages
    content.consumer_id = consumer_id
    for position in positions:
        content.message_ids.add(ledgerId=unsigned(position.ledger_id), entryId=unsigned(position.entry_id))
    return command


def seek_to_id(request_id: int, consumer_id: int, target: MessageId, ack_set: int | None = None) -> BaseCommand:
    """SEEK to an entry, inclusive; `ack_set` (1 = deliver) enters a batch. CLOSE_CONSUMER precedes SUCCESS (W6)."""
    command = BaseCommand(type=BaseCommand.SEEK)
    content = command.seek
    content.consumer_id = consumer_id
    content.request_id = request_id
    content.message_id.CopyFrom(MessageIdData(ledgerId=unsigned(target.ledger_id), entryId=unsigned(target.entry_id)))
    if ack_set is not None:
        content.message_id.ack_set.extend(ack_sets.words(ack_set))
    return command


def seek_to_time(request_id: int, consumer_id: int, publish_time_ms: int) -> BaseCommand:
    """SEEK to the first message published at or after a wall-clock time."""
    command = BaseCommand(type=BaseCommand.SEEK)
    command.seek.consumer_id = consumer_id
    command.seek.request_id = request_id
    command.seek.message_publish_time = publish_time_ms
    return command


def last_message_id(request_id: int, consumer_id: int) -> BaseCommand:
    """GET_LAST_MESSAGE_ID."""
    command = BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID)
    command.getLastMessageId.consumer_id = consumer_id
    command.getLastMessageId.request_id = request_id
    return command


def unsubscribe(request_id: int, consumer_id: int, force: bool = False) -> BaseCommand:
    """UNSUBSCRIBE: deletes the subscription; `force` also under other consumers."""
    command = BaseCommand(type=BaseCommand.UNSUBSCRIBE)
    command.unsubscribe.consumer_id = consumer_id
    command.unsubscribe.request_id = request_id
    if force:
        command.unsubscribe.force = True
    return command


def close_consumer(request_id: int, consumer_id: int) -> BaseCommand:
    """CLOSE_CONSUMER, answered by SUCCESS."""
    command = BaseCommand(type=BaseCommand.CLOSE_CONSUMER)
    command.close_consumer.consumer_id = consumer_id
    command.close_consumer.request_id = request_id
    return command


def _properties(properties: Mapping[str, str] | None) -> Iterable[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in (properties or {}).items()]
