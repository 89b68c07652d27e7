"""Fields that a broker always sets (J1), refusals, and reading them back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spark_pulsar.model.errors import NotAllowed, PulsarError, ServerError, TopicNotFound, UnknownError
from spark_pulsar.model.positions.ids import EARLIEST_ID, MessageId, Position
from spark_pulsar.wire.protocol import commands, frames, replies, requests
from spark_pulsar.wire.protocol.commands import FIELD_OF, NO_REQUEST, request_id_of
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, FeatureFlags, Schema
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


ALWAYS_SET: dict[str, tuple[Callable[[], BaseCommand], set[str]]] = {
    "CONNECTED": (
        lambda: commands.connected(20, "ours"),
        {"server_version", "protocol_version", "max_message_size"},
    ),
    "PRODUCER_SUCCESS": (
        lambda: commands.producer_success(1, "p"),
        {"request_id", "producer_name", "last_sequence_id", "schema_version", "producer_ready"},
    ),
    "PARTITIONED_METADATA_RESPONSE": (
        lambda: commands.partition_metadata(1, 0),
        {"partitions", "request_id", "response"},
    ),
    "LOOKUP_RESPONSE": (
        lambda: commands.lookup_connect(1, "pulsar://h:6650"),
        {"brokerServiceUrl", "response", "request_id", "authoritative", "proxy_through_service_url"},
    ),
    "SEND_RECEIPT": (
        lambda: entry_commands.send_receipt(1, 2, Position(3, 4)),
        {"producer_id", "sequence_id", "message_id", "highest_sequence_id"},
    ),
    "SEND_ERROR": (lambda: commands.send_error(1, 2, WHY), {"producer_id", "sequence_id", "error", "message"}),
    "ERROR": (lambda: commands.error(1, WHY), {"request_id", "error", "message"}),
    "ACK_RESPONSE": (lambda: commands.ack_response(1, 2), {"consumer_id", "request_id"}),
    "GET_SCHEMA_RESPONSE": (
        lambda: commands.schema_found(1, Schema(name="n", schema_data=b"", type=Schema.String), b""),
        {"request_id", "schema", "schema_version"},
    ),
    "GET_OR_CREATE_SCHEMA_RESPONSE": (
        lambda: commands.schema_created(1, b"\x00" * 8),
        {"request_id", "schema_version"},
    ),
    "GET_LAST_MESSAGE_ID_RESPONSE": (
        lambda: commands.last_message_id(1, EARLIEST_ID, Position(5, -1)),
        {"last_message_id", "request_id", "consumer_mark_delete_position"},
    ),
    "AUTH_CHALLENGE": (
        lambda: commands.auth_challenge("token", b"PulsarAuthRefresh", "ours", 21),
        {"server_version", "challenge", "protocol_version"},
    ),
    "WATCH_TOPIC_LIST_SUCCESS": (
        lambda: commands.watch_topic_list_success(1, 2, ["t"], "hash"),
        {"request_id", "watcher_id", "topic", "topics_hash"},
    ),
    "WATCH_TOPIC_UPDATE": (
        lambda: commands.watch_topic_update(2, ["a"], ["b"], "hash"),
        {"watcher_id", "new_topics", "deleted_topics", "topics_hash"},
    ),
    "GET_TOPICS_OF_NAMESPACE_RESPONSE": (
        lambda: commands.topics_of_namespace(1, ["t"], "hash"),
        {"request_id", "topics", "filtered", "topics_hash", "changed"},
    ),
    "ACTIVE_CONSUMER_CHANGE": (lambda: commands.active_consumer_change(1, False), {"consumer_id", "is_active"}),
    "REACHED_END_OF_TOPIC": (lambda: commands.reached_end_of_topic(1), {"consumer_id"}),
    "CLOSE_PRODUCER": (lambda: commands.close_producer(1), {"producer_id", "request_id"}),
    "CLOSE_CONSUMER": (lambda: commands.close_consumer(1), {"consumer_id", "request_id"}),
}


@pytest.mark.parametrize("name", ALWAYS_SET)
def test_what_clients_rely_on_is_set(name: str) -> None:
    make, fields = ALWAYS_SET[name]
    command = make()
    assert BaseCommand.Type.Name(command.type) == name
    assert {field.name for field, _ in content_of(command).ListFields()} == fields


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


def test_an_empty_text_is_never_sent_with_an_error() -> None:
    # G5
    assert content_of(commands.ack_response(1, 2, TopicNotFound())).message == "TopicNotFound"


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
    (BaseCommand(type=BaseCommand.GET_SCHEMA, getSchema={"request_id": 9, "topic": "t"}), "GET_SCHEMA_RESPONSE"),
    (
        BaseCommand(
            type=BaseCommand.GET_OR_CREATE_SCHEMA,
            getOrCreateSchema={
                "request_id": 9,
                "topic": "t",
                "schema": {"name": "", "schema_data": b"", "type": Schema.String},
            },
        ),
        "GET_OR_CREATE_SCHEMA_RESPONSE",
    ),
    (
        BaseCommand(type=BaseCommand.CONSUMER_STATS, consumerStats={"request_id": 9, "consumer_id": 1}),
        "CONSUMER_STATS_RESPONSE",
    ),
    (BaseCommand(type=BaseCommand.NEW_TXN, newTxn={"request_id": 9}), "NEW_TXN_RESPONSE"),
    (
        BaseCommand(type=BaseCommand.TC_CLIENT_CONNECT_REQUEST, tcClientConnectRequest={"request_id": 9, "tc_id": 0}),
        "ERROR",
    ),
    (
        BaseCommand(type=BaseCommand.ADD_PARTITION_TO_TXN, addPartitionToTxn={"request_id": 9}),
        "ADD_PARTITION_TO_TXN_RESPONSE",
    ),
    (BaseCommand(type=BaseCommand.END_TXN, endTxn={"request_id": 9}), "END_TXN_RESPONSE"),
    (
        BaseCommand(
            type=BaseCommand.WATCH_TOPIC_LIST,
            watchTopicList={"request_id": 9, "watcher_id": 1, "namespace": "n", "topics_pattern": "p"},
        ),
        "ERROR",
    ),
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
