"""Commands that a client sends, each with every required field and the ones that brokers read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_pulsar.model.limits import PROTOCOL_VERSION
from spark_pulsar.model.positions.ids import MessageId, Position, TransactionId
from spark_pulsar.model.schemas import Schema, SchemaType
from spark_pulsar.wire import pulsar_api_pb2 as api
from spark_pulsar.wire.protocol import ack_sets
from spark_pulsar.wire.protocol.commands import command_of, message_id_data
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, FeatureFlags, KeyValue, ProducerAccessMode
from spark_pulsar.wire.pulsar_api_pb2 import Schema as WireSchema


def connect(
    client_version: str,
    auth_method: str = "none",
    auth_data: bytes | None = None,
    proxy_to_broker_url: str | None = None,
    features: FeatureFlags | None = None,
) -> BaseCommand:
    """CONNECT, the first frame (W1). `proxy_to_broker_url` is `host:port` of the broker when a proxy stands between."""
    return command_of(
        api.CommandConnect(
            client_version=client_version,
            protocol_version=PROTOCOL_VERSION,
            auth_method_name=auth_method,
            auth_data=auth_data,
            proxy_to_broker_url=proxy_to_broker_url,
            feature_flags=features,
        )
    )


def auth_response(client_version: str, auth_method: str, auth_data: bytes) -> BaseCommand:
    """AUTH_RESPONSE: the answer to AUTH_CHALLENGE."""
    response = api.AuthData(auth_method_name=auth_method, auth_data=auth_data)
    return command_of(
        api.CommandAuthResponse(client_version=client_version, response=response, protocol_version=PROTOCOL_VERSION)
    )


def partition_metadata(request_id: int, topic: str, create: bool = True) -> BaseCommand:
    """PARTITIONED_METADATA; with `create` false the broker does not create a missing topic."""
    allowed = None if create else False
    return command_of(
        api.CommandPartitionedTopicMetadata(topic=topic, request_id=request_id, metadata_auto_creation_enabled=allowed)
    )


def lookup(request_id: int, topic: str, authoritative: bool = False, listener_name: str = "") -> BaseCommand:
    """LOOKUP; `authoritative` is what the redirect before it said, `listener_name` the listener whose address is
    wanted, empty for the broker's default."""
    named = listener_name or None
    return command_of(
        api.CommandLookupTopic(
            topic=topic, request_id=request_id, authoritative=authoritative, advertised_listener_name=named
        )
    )


def topics_of_namespace(
    request_id: int,
    namespace: str,
    mode: api.CommandGetTopicsOfNamespace.Mode.ValueType = api.CommandGetTopicsOfNamespace.PERSISTENT,
    pattern: str | None = None,
) -> BaseCommand:
    """GET_TOPICS_OF_NAMESPACE of `tenant/namespace`. A broker may ignore `pattern`: filter the answer again."""
    return command_of(
        api.CommandGetTopicsOfNamespace(request_id=request_id, namespace=namespace, mode=mode, topics_pattern=pattern)
    )


def get_schema(request_id: int, topic: str, version: bytes | None = None) -> BaseCommand:
    """GET_SCHEMA: the schema with a version of a topic, or without one the last."""
    return command_of(api.CommandGetSchema(request_id=request_id, topic=topic, schema_version=version))


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
    schema: Schema | None = None,
    encrypted: bool = False,
    in_transactions: bool = False,
) -> BaseCommand:
    """PRODUCER. Without `name` the broker makes one up; a reconnect repeats that name and adds 1 to `epoch`.

    With `in_transactions` the answer waits until the topic takes messages of transactions.
    """
    command = command_of(
        api.CommandProducer(
            topic=topic,
            producer_id=producer_id,
            request_id=request_id,
            producer_name=name,
            metadata=_properties(properties),
            epoch=epoch,
            user_provided_producer_name=name is not None if user_provided_name is None else user_provided_name,
            producer_access_mode=access_mode,
        )
    )
    if encrypted:
        command.producer.encrypted = True
    if in_transactions:
        command.producer.txn_enabled = True
    if schema is not None:
        fill_schema(command.producer.schema, schema.type.name, schema)
    return command


def send(
    producer_id: int,
    sequence_id: int,
    message_count: int = 1,
    highest_sequence_id: int | None = None,
    is_chunk: bool = False,
    transaction: TransactionId | None = None,
) -> BaseCommand:
    """SEND of one entry, in a transaction if it is given; `frames.payload_frame` puts the entry's bytes behind it."""
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
    if transaction is not None:
        content.txnid_most_bits, content.txnid_least_bits = transaction
    return command


def close_producer(request_id: int, producer_id: int) -> BaseCommand:
    """CLOSE_PRODUCER, answered by SUCCESS after the receipts of everything sent before."""
    return command_of(api.CommandCloseProducer(producer_id=producer_id, request_id=request_id))


def subscribe(
    request_id: int,
    topic: str,
    subscription: str,
    consumer_id: int,
    subscription_type: api.CommandSubscribe.SubType.ValueType = api.CommandSubscribe.Exclusive,
    *,
    durable: bool = True,
    start: MessageId | None = None,
    initial_position: api.CommandSubscribe.InitialPosition.ValueType = api.CommandSubscribe.Latest,
    consumer_name: str | None = None,
    read_compacted: bool = False,
    create_topic: bool = True,
    properties: Mapping[str, str] | None = None,
) -> BaseCommand:
    """SUBSCRIBE. `durable` false is a reader; it begins *at* the entry of `start`, inclusive (CUR-10)."""
    begin = None if start is None else message_id_data(start.position)
    if begin is not None and start is not None and start.batch_index >= 0:
        begin.batch_index = start.batch_index
    return command_of(
        api.CommandSubscribe(
            topic=topic,
            subscription=subscription,
            subType=subscription_type,
            consumer_id=consumer_id,
            request_id=request_id,
            consumer_name=consumer_name,
            durable=durable,
            start_message_id=begin,
            metadata=_properties(properties),
            read_compacted=read_compacted,
            initialPosition=initial_position,
            force_topic_creation=create_topic,
        )
    )


def flow(consumer_id: int, permits: int) -> BaseCommand:
    """FLOW: `permits` more messages, at least 1 (0 closes the connection of a real broker)."""
    return command_of(api.CommandFlow(consumer_id=consumer_id, messagePermits=permits))


def ack(
    consumer_id: int,
    positions: Iterable[Position],
    *,
    cumulative: bool = False,
    ack_set: int | None = None,
    request_id: int | None = None,
    validation_error: api.CommandAck.ValidationError.ValueType | None = None,
) -> BaseCommand:
    """ACK of entries; `ack_set` (1 = not acked) speaks for every entry given. With `request_id` an answer comes."""
    ids = [message_id_data(position) for position in positions]
    if ack_set is not None:
        for data in ids:
            data.ack_set.extend(ack_sets.words(ack_set))
    return command_of(
        api.CommandAck(
            consumer_id=consumer_id,
            ack_type=api.CommandAck.Cumulative if cumulative else api.CommandAck.Individual,
            message_id=ids,
            validation_error=validation_error,
            request_id=request_id,
        )
    )


def redeliver(consumer_id: int, positions: Iterable[Position] = ()) -> BaseCommand:
    """REDELIVER_UNACKNOWLEDGED_MESSAGES; none given = everything that this consumer has not acked. No answer."""
    ids = map(message_id_data, positions)
    return command_of(api.CommandRedeliverUnacknowledgedMessages(consumer_id=consumer_id, message_ids=ids))


def seek_to_id(request_id: int, consumer_id: int, target: MessageId, ack_set: int | None = None) -> BaseCommand:
    """SEEK to an entry, inclusive; `ack_set` (1 = deliver) enters a batch. CLOSE_CONSUMER precedes SUCCESS (W6)."""
    data = message_id_data(target.position)
    data.ack_set.extend(() if ack_set is None else ack_sets.words(ack_set))
    return command_of(api.CommandSeek(consumer_id=consumer_id, request_id=request_id, message_id=data))


def seek_to_time(request_id: int, consumer_id: int, publish_time_ms: int) -> BaseCommand:
    """SEEK to the first message published at or after a wall-clock time."""
    return command_of(
        api.CommandSeek(consumer_id=consumer_id, request_id=request_id, message_publish_time=publish_time_ms)
    )


def last_message_id(request_id: int, consumer_id: int) -> BaseCommand:
    """GET_LAST_MESSAGE_ID."""
    return command_of(api.CommandGetLastMessageId(consumer_id=consumer_id, request_id=request_id))


def unsubscribe(request_id: int, consumer_id: int, force: bool = False) -> BaseCommand:
    """UNSUBSCRIBE: deletes the subscription; `force` also under other consumers."""
    return command_of(api.CommandUnsubscribe(consumer_id=consumer_id, request_id=request_id, force=force or None))


def close_consumer(request_id: int, consumer_id: int) -> BaseCommand:
    """CLOSE_CONSUMER, answered by SUCCESS."""
    return command_of(api.CommandCloseConsumer(consumer_id=consumer_id, request_id=request_id))


def connect_coordinator(request_id: int, coordinator: int) -> BaseCommand:
    """TC_CLIENT_CONNECT_REQUEST: the broker gets a transaction coordinator ready."""
    return command_of(api.CommandTcClientConnectRequest(request_id=request_id, tc_id=coordinator))


def new_transaction(request_id: int, coordinator: int, timeout_ms: int) -> BaseCommand:
    """NEW_TXN: a transaction that is aborted when it has not ended in time."""
    return command_of(api.CommandNewTxn(request_id=request_id, tc_id=coordinator, txn_ttl_millis=timeout_ms))


def add_partitions(request_id: int, transaction: TransactionId, partitions: Iterable[str]) -> BaseCommand:
    """ADD_PARTITION_TO_TXN: topic partitions that the transaction is going to write to."""
    most, least = transaction
    return command_of(
        api.CommandAddPartitionToTxn(
            request_id=request_id, txnid_most_bits=most, txnid_least_bits=least, partitions=partitions
        )
    )


def end_transaction(request_id: int, transaction: TransactionId, *, commit: bool) -> BaseCommand:
    """END_TXN: commits or aborts."""
    most, least = transaction
    action = api.COMMIT if commit else api.ABORT
    return command_of(
        api.CommandEndTxn(request_id=request_id, txnid_most_bits=most, txnid_least_bits=least, txn_action=action)
    )


def _properties(properties: Mapping[str, str] | None) -> Iterable[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in (properties or {}).items()]
