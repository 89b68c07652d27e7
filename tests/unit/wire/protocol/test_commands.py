"""Commands of both sides: fields that are always set (J1), refusals, and reading them back."""

from collections.abc import Callable
from typing import Any

import pytest

from spark_pulsar.model.errors import NotAllowed, PulsarError, ServerError, TopicNotFound, UnknownError
from spark_pulsar.model.positions.ids import EARLIEST_ID, LATEST_ID, MessageId, Position
from spark_pulsar.wire.protocol import commands, frames, replies, requests
from spark_pulsar.wire.protocol.commands import FIELD_OF, NO_REQUEST, request_id_of
from spark_pulsar.wire.pulsar_api_pb2 import (
    BaseCommand,
    CommandAck,
    CommandSubscribe,
    FeatureFlags,
    ProducerAccessMode,
    Schema,
)
from spark_pulsar.wire.pulsar_api_pb2 import CommandPartitionedTopicMetadataResponse as Metadata
from tests import entry_commands

WHY = TopicNotFound("no such topic")


def content_of(command: BaseCommand) -> Any:
    """The sub-message, after a trip over the wire."""
    frame = frames.command_frame(command)
    parsed, payload_start = frames.parse_command(frame, 0, len(frame))
    assert payload_start == len(frame)
    assert parsed == command
    return getattr(parsed, FIELD_OF[parsed.type])


ALWAYS_SET: dict[str, tuple[Callable[[], BaseCommand], str]] = {
    "CONNECTED": (lambda: commands.connected(20, "ours"), "server_version protocol_version max_message_size"),
    "PRODUCER_SUCCESS": (
        lambda: commands.producer_success(1, "p"),
        "request_id producer_name last_sequence_id schema_version producer_ready",
    ),
    "PARTITIONED_METADATA_RESPONSE": (lambda: commands.partition_metadata(1, 0), "partitions request_id response"),
    "LOOKUP_RESPONSE": (
        lambda: commands.lookup_connect(1, "pulsar://h:6650"),
        "brokerServiceUrl response request_id authoritative proxy_through_service_url",
    ),
    "SEND_RECEIPT": (
        lambda: entry_commands.send_receipt(1, 2, Position(3, 4)),
        "producer_id sequence_id message_id highest_sequence_id",
    ),
    "SEND_ERROR": (lambda: commands.send_error(1, 2, WHY), "producer_id sequence_id error message"),
    "ERROR": (lambda: commands.error(1, WHY), "request_id error message"),
    "ACK_RESPONSE": (lambda: commands.ack_response(1, 2), "consumer_id request_id"),
    "GET_SCHEMA_RESPONSE": (
        lambda: commands.schema_found(1, Schema(name="n", schema_data=b"", type=Schema.String), b""),
        "request_id schema schema_version",
    ),
    "GET_OR_CREATE_SCHEMA_RESPONSE": (lambda: commands.schema_created(1, bytes(8)), "request_id schema_version"),
    "GET_LAST_MESSAGE_ID_RESPONSE": (
        lambda: commands.last_message_id(1, EARLIEST_ID, Position(5, -1)),
        "last_message_id request_id consumer_mark_delete_position",
    ),
    "AUTH_CHALLENGE": (
        lambda: commands.auth_challenge("token", b"PulsarAuthRefresh", "ours", 21),
        "server_version challenge protocol_version",
    ),
    "WATCH_TOPIC_LIST_SUCCESS": (
        lambda: commands.watch_topic_list_success(1, 2, ["t"], "hash"),
        "request_id watcher_id topic topics_hash",
    ),
    "WATCH_TOPIC_UPDATE": (
        lambda: commands.watch_topic_update(2, ["a"], ["b"], "hash"),
        "watcher_id new_topics deleted_topics topics_hash",
    ),
    "GET_TOPICS_OF_NAMESPACE_RESPONSE": (
        lambda: commands.topics_of_namespace(1, ["t"], "hash"),
        "request_id topics filtered topics_hash changed",
    ),
    "ACTIVE_CONSUMER_CHANGE": (lambda: commands.active_consumer_change(1, False), "consumer_id is_active"),
    "REACHED_END_OF_TOPIC": (lambda: commands.reached_end_of_topic(1), "consumer_id"),
    "CLOSE_PRODUCER": (lambda: commands.close_producer(1), "producer_id request_id"),
    "CLOSE_CONSUMER": (lambda: commands.close_consumer(1), "consumer_id request_id"),
}


@pytest.mark.parametrize("name", ALWAYS_SET)
def test_what_clients_rely_on_is_set(name: str) -> None:
    make, fields = ALWAYS_SET[name]
    command = make()
    assert BaseCommand.Type.Name(command.type) == name
    assert {field.name for field, _ in content_of(command).ListFields()} == set(fields.split())


def test_optional_parts_appear_when_given() -> None:
    connected = content_of(commands.connected(99, "ours", 1000, FeatureFlags(supports_auth_refresh=True)))
    assert (connected.protocol_version, connected.max_message_size) == (21, 1000)
    assert connected.feature_flags.supports_auth_refresh
    assert content_of(commands.producer_success(1, "p", topic_epoch=0)).HasField("topic_epoch")
    assert content_of(commands.lookup_connect(1, "a", "b")).brokerServiceUrlTls == "b"
    assert content_of(commands.close_producer(1, service_url="u")).assignedBrokerServiceUrl == "u"
    assert content_of(commands.close_consumer(1, service_url="u")).assignedBrokerServiceUrl == "u"
    assert content_of(commands.close_consumer(1)).request_id == NO_REQUEST == 2**64 - 1
    last = content_of(commands.last_message_id(1, MessageId(7, 3, 2, 9), Position(5, -1)))
    assert (last.last_message_id.partition, last.last_message_id.batch_index) == (2, 9)
    assert last.consumer_mark_delete_position.entryId == 2**64 - 1
    assert not last.consumer_mark_delete_position.HasField("partition")


def test_every_command_type_has_its_field() -> None:
    assert set(FIELD_OF) == set(BaseCommand.Type.values())


def test_an_empty_text_is_never_sent_with_an_error() -> None:
    # G5
    assert content_of(commands.ack_response(1, 2, TopicNotFound())).message == "TopicNotFound"


def asked(name: str, **content: Any) -> BaseCommand:
    """A request of this kind, of id 9."""
    kind = BaseCommand.Type.Value(name)
    return BaseCommand(type=kind, **{FIELD_OF[kind]: {"request_id": 9, **content}})


SCHEMA = {"name": "", "schema_data": b"", "type": Schema.String}
# A request of each kind that has an answer, and what its refusal is called.
REFUSED: list[tuple[BaseCommand, str]] = [
    (requests.lookup(9, "t"), "LOOKUP_RESPONSE"),
    (requests.partition_metadata(9, "t"), "PARTITIONED_METADATA_RESPONSE"),
    (requests.producer(9, "t", 1), "ERROR"),
    (requests.subscribe(9, "t", "s", 1), "ERROR"),
    (requests.close_producer(9, 1), "ERROR"),
    (requests.close_consumer(9, 1), "ERROR"),
    (requests.seek_to_time(9, 1, 5), "ERROR"),
    (requests.last_message_id(9, 1), "ERROR"),
    (requests.unsubscribe(9, 1), "ERROR"),
    (requests.topics_of_namespace(9, "public/default"), "ERROR"),
    (requests.ack(1, [Position(1, 2)], request_id=9), "ACK_RESPONSE"),
    (asked("GET_SCHEMA", topic="t"), "GET_SCHEMA_RESPONSE"),
    (asked("GET_OR_CREATE_SCHEMA", topic="t", schema=SCHEMA), "GET_OR_CREATE_SCHEMA_RESPONSE"),
    (asked("CONSUMER_STATS", consumer_id=1), "CONSUMER_STATS_RESPONSE"),
    (asked("NEW_TXN"), "NEW_TXN_RESPONSE"),
    (asked("TC_CLIENT_CONNECT_REQUEST", tc_id=0), "ERROR"),
    (asked("ADD_PARTITION_TO_TXN"), "ADD_PARTITION_TO_TXN_RESPONSE"),
    (asked("END_TXN"), "END_TXN_RESPONSE"),
    (asked("WATCH_TOPIC_LIST", watcher_id=1, namespace="n", topics_pattern="p"), "ERROR"),
]


@pytest.mark.parametrize(("request_", "name"), REFUSED, ids=[BaseCommand.Type.Name(made.type) for made, _ in REFUSED])
def test_refusals_answer_the_request(request_: BaseCommand, name: str) -> None:
    # A1: every request is answered, with its id, where its sender looks for it
    content_of(request_)
    assert request_id_of(request_) == 9
    answer = replies.refusal(request_, WHY)
    assert answer is not None
    assert BaseCommand.Type.Name(answer.type) == name
    assert content_of(answer).request_id == 9
    error = replies.error_of(answer)
    assert type(error) is TopicNotFound
    assert error.message == "no such topic"


def test_a_send_is_refused_with_send_error() -> None:
    answer = replies.refusal(requests.send(3, 77), NotAllowed("transactions are off"))
    assert answer is not None
    content = content_of(answer)
    assert (content.producer_id, content.sequence_id, content.error) == (3, 77, ServerError.NotAllowedError)
    assert isinstance(replies.error_of(answer), NotAllowed)
    batch = replies.refusal(requests.send(3, 77, 4, 80), NotAllowed("transactions are off"))
    assert batch is not None
    assert content_of(batch).sequence_id == 80


@pytest.mark.parametrize(
    "command",
    [requests.flow(1, 5), requests.ack(1, [Position(1, 2)]), requests.redeliver(1), commands.ping(), commands.pong()],
)
def test_what_gets_no_answer_gets_no_refusal(command: BaseCommand) -> None:
    assert request_id_of(command) is None
    assert replies.refusal(command, WHY) is None


@pytest.mark.parametrize("name", [name for name in ALWAYS_SET if name not in ("ERROR", "SEND_ERROR")])
def test_good_answers_are_no_errors(name: str) -> None:
    assert replies.error_of(ALWAYS_SET[name][0]()) is None


def test_a_lookup_answer_without_a_response_is_a_failure() -> None:
    # 5.2: C++ treats its absence as failure
    answer = BaseCommand(type=BaseCommand.LOOKUP_RESPONSE, lookupTopicResponse={"request_id": 1})
    assert isinstance(replies.error_of(answer), PulsarError)


@pytest.mark.parametrize("request_", [*(request for request, _ in REFUSED), requests.send(3, 77)])
def test_an_error_number_of_the_future_is_an_error(request_: BaseCommand) -> None:
    answer = replies.refusal(request_, WHY)
    assert answer is not None
    content = content_of(answer)
    field = next(name for name in ("error", "error_code") if name in content.DESCRIPTOR.fields_by_name)
    tag = content.DESCRIPTOR.fields_by_name[field].number << 3
    frame = frames.command_frame(answer).replace(bytes([tag, WHY.code]), bytes([tag, 99]))
    answer, _ = frames.parse_command(frame, 0, len(frame))
    assert not getattr(answer, FIELD_OF[answer.type]).HasField(field)
    error = replies.error_of(answer)
    assert type(error) is UnknownError
    assert error.message == "error code 99: no such topic"


def test_failed_metadata_have_no_partitions() -> None:
    content = content_of(commands.partition_metadata_failed(1, WHY))
    assert not content.HasField("partitions")
    assert content.response == Metadata.Failed


def fields_of(command: BaseCommand) -> set[str]:
    return {field.name for field, _ in content_of(command).ListFields()}


def test_connect() -> None:
    assert fields_of(requests.connect("ours")) == {"client_version", "protocol_version", "auth_method_name"}
    flags = FeatureFlags(supports_broker_entry_metadata=True)
    full = content_of(requests.connect("ours", "token", b"tok", "broker-1:6650", flags))
    assert full.protocol_version >= 19  # W1
    assert (full.auth_method_name, full.auth_data, full.proxy_to_broker_url) == ("token", b"tok", "broker-1:6650")
    assert full.feature_flags.supports_broker_entry_metadata
    answer = content_of(requests.auth_response("ours", "token", b"new"))
    assert (answer.response.auth_method_name, answer.response.auth_data) == ("token", b"new")


def test_metadata_lookup_and_lists() -> None:
    assert fields_of(requests.partition_metadata(1, "t")) == {"topic", "request_id"}
    assert content_of(requests.partition_metadata(1, "t", create=False)).metadata_auto_creation_enabled is False
    assert content_of(requests.lookup(1, "t", authoritative=True)).authoritative
    assert not content_of(requests.topics_of_namespace(1, "a/b")).HasField("topics_pattern")
    assert content_of(requests.topics_of_namespace(1, "a/b", pattern="x.*")).topics_pattern == "x.*"


def test_producer() -> None:
    generated = content_of(requests.producer(1, "t", 2))
    assert not generated.HasField("producer_name")
    assert not generated.user_provided_producer_name
    named = content_of(
        requests.producer(1, "t", 2, "p", 3, properties={"a": "1"}, access_mode=ProducerAccessMode.Exclusive)
    )
    assert (named.producer_name, named.epoch, named.user_provided_producer_name) == ("p", 3, True)
    assert [(pair.key, pair.value) for pair in named.metadata] == [("a", "1")]
    again = content_of(requests.producer(1, "t", 2, "made-up-by-broker", 1, user_provided_name=False))
    assert not again.user_provided_producer_name


def test_send() -> None:
    assert fields_of(requests.send(1, 2)) == {"producer_id", "sequence_id"}
    full = content_of(requests.send(1, 2, 10, 11, is_chunk=True))
    assert (full.num_messages, full.highest_sequence_id, full.is_chunk) == (10, 11, True)


@pytest.mark.parametrize(
    ("start", "ledger", "entry", "batch_index"),
    [
        (EARLIEST_ID, 2**64 - 1, 2**64 - 1, None),
        (LATEST_ID, 2**63 - 1, 2**63 - 1, None),
        (MessageId(7, 3, 1, 4), 7, 3, 4),
        (MessageId(7, 3, 1), 7, 3, None),
    ],
)
def test_reader(start: MessageId, ledger: int, entry: int, batch_index: int | None) -> None:
    content = content_of(requests.subscribe(1, "t", "s", 2, durable=False, start=start))
    data = content.start_message_id
    assert (data.ledgerId, data.entryId) == (ledger, entry)
    assert data.HasField("batch_index") == (batch_index is not None)
    assert not content.durable


def test_subscribe() -> None:
    settings = {"consumer_name": "c", "read_compacted": True, "create_topic": False, "properties": {"x": "y"}}
    position = CommandSubscribe.Earliest
    content = content_of(
        requests.subscribe(1, "t", "s", 2, CommandSubscribe.Shared, initial_position=position, **settings)  # type: ignore[arg-type]
    )
    assert content.subType == CommandSubscribe.Shared
    assert content.initialPosition == CommandSubscribe.Earliest
    assert (content.durable, content.consumer_name, content.read_compacted) == (True, "c", True)
    assert content.force_topic_creation is False
    assert not content.HasField("start_message_id")


def test_acks_and_seeks() -> None:
    ack = content_of(requests.ack(1, [Position(7, 3), Position(-1, -1)], ack_set=1 << 64, request_id=0))
    assert ack.ack_type == CommandAck.Individual
    assert [list(data.ack_set) for data in ack.message_id] == [[0, 1], [0, 1]]
    assert ack.message_id[1].ledgerId == 2**64 - 1
    assert ack.HasField("request_id")
    seek = content_of(requests.seek_to_id(1, 2, MessageId(7, 3, -1, 4), ack_set=0b110000))
    assert list(seek.message_id.ack_set) == [48]
    assert not seek.HasField("message_publish_time")
    assert content_of(requests.unsubscribe(1, 2, force=True)).force
    assert not content_of(requests.unsubscribe(1, 2)).HasField("force")
