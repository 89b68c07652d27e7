"""Requests of a client: presence of optional fields, and that brokers' parsers can read them."""

from __future__ import annotations

from typing import Any

import pytest

from spark_pulsar.model.positions.ids import EARLIEST_ID, LATEST_ID, MessageId, Position
from spark_pulsar.wire.protocol import frames, requests
from spark_pulsar.wire.protocol.commands import FIELD_OF
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandAck, CommandSubscribe, FeatureFlags, ProducerAccessMode


def content_of(command: BaseCommand) -> Any:
    frame = frames.command_frame(command)
    parsed, _ = frames.parse_command(frame, 0, len(frame))
    return getattr(parsed, FIELD_OF[parsed.type])


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
    content = content_of(
        requests.subscribe(
            1,
            "t",
            "s",
            2,
            CommandSubscribe.Shared,
            initial_position=CommandSubscribe.Earliest,
            consumer_name="c",
            read_compacted=True,
            create_topic=False,
            properties={"x": "y"},
        )
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
