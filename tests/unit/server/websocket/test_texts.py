"""Texts of WebSockets: ids, times, messages to publish, commands, parameters."""

import pytest

from spark_pulsar.admin.http.refusals import Refused
from spark_pulsar.server.websocket import consumer_commands, producer_messages
from spark_pulsar.server.websocket.consumer_commands import BadCommand
from spark_pulsar.server.websocket.consumer_messages import time_text
from spark_pulsar.server.websocket.message_ids import BadMessageId, WebSocketMessageId
from spark_pulsar.server.websocket.parameters import Parameters
from spark_pulsar.server.websocket.producer_messages import BadMessage
from spark_pulsar.server.websocket.routing import Router, java_string_hash


@pytest.mark.parametrize(
    ("message_id", "text"),
    [
        (WebSocketMessageId(3, 0), "CAMQADAA"),  # as Apache Pulsar wrote them
        (WebSocketMessageId(15, 2), "CA8QAjAA"),
        (WebSocketMessageId(3, 0, 1, 2, 5), "CAMQABgBIAIwBQ=="),
    ],
)
def test_ids_are_those_of_apache_pulsar(message_id: WebSocketMessageId, text: str) -> None:
    # covers WS-4
    assert message_id.text() == text
    assert WebSocketMessageId.parse(text) == WebSocketMessageId.parse(text.rstrip("=")) == message_id


@pytest.mark.parametrize("text", ["", "!!!", "AAAA", "ü", "CAM=" * 100])
def test_what_is_no_id_is_refused(text: str) -> None:
    # covers WS-4
    with pytest.raises(BadMessageId):
        WebSocketMessageId.parse(text)


def test_times_have_no_zeros_at_their_end() -> None:
    # covers WS-10
    assert time_text(1706695200000) == "2024-01-31T10:00:00Z"
    assert time_text(1706695200590) == "2024-01-31T10:00:00.59Z"
    assert time_text(1706695200007) == "2024-01-31T10:00:00.007Z"
    assert time_text((1 << 64) - 1) == "9999-12-31T23:59:59.999Z"


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2024-01-31T10:00:00Z", 1706695200000),
        ("2024-01-31T10:00Z", 1706695200000),
        ("2024-01-31T12:00:00.5+02:00", 1706695200500),
        ("2024-01-31T05:30:00.123456789-04:30", 1706695200123),
    ],
)
def test_event_times_are_read(text: str, time_ms: int) -> None:
    # covers WS-5
    message = producer_messages.parse(f'{{"payload":"","eventTime":"{text}"}}')
    assert message.event_time_ms == time_ms


@pytest.mark.parametrize(
    "text",
    ["2024-01-31", "2024-01-31T10:00:00", "2024-13-31T10:00:00Z", "1960-01-01T00:00:00Z", "2024-01-31T10:00:00+99:00"],
)
def test_other_event_times_are_refused(text: str) -> None:
    # covers WS-6
    with pytest.raises(BadMessage) as caught:
        producer_messages.parse(f'{{"payload":"","eventTime":"{text}","context":"c"}}')
    assert (caught.value.code, caught.value.context) == (7, "c")


@pytest.mark.parametrize(
    "text",
    [
        '{"payload":"","context":"\\ud800"}',
        "[" * 200 + "]" * 200,
        '{"payload":"","deliverAt":1e400}',
        '{"payload":"","deliverAt":' + "9" * 30 + "}",
    ],
)
def test_hostile_texts_are_no_json(text: str) -> None:
    # covers WS-6
    with pytest.raises(BadMessage) as caught:
        producer_messages.parse(text)
    assert caught.value.code == 3


def test_permits_are_counted_from_one() -> None:
    # covers WS-12
    assert consumer_commands.parse('{"type":"permit","permitMessages":1}').permits == 1
    for text in ("0", "-1", "true", '"5"', str(1 << 31)):
        with pytest.raises(BadCommand):
            consumer_commands.parse(f'{{"type":"permit","permitMessages":{text}}}')


def test_numbers_are_those_of_java() -> None:
    # covers WS-3
    assert Parameters({"n": "2147483647"}).number("n", 0) == 2147483647
    assert Parameters({"n": "-5"}).number("n", 0) == -5
    assert Parameters({"n": str((1 << 63) - 1)}).number("n", 0, is_long=True) == (1 << 63) - 1
    for text in ("2147483648", "", " 1", "1.5", "0x1", "٣", "1_000", "9" * 5000):
        with pytest.raises(Refused):
            Parameters({"n": text}).number("n", 0)


def test_strings_hash_as_in_java() -> None:
    # covers WS-7
    assert java_string_hash("") == 0
    assert java_string_hash("hello") == 99162322
    assert java_string_hash("polygenelubricants") == 0  # of the least number, whose sign is dropped
    assert java_string_hash("🚀") == (31 * 0xD83D + 0xDE80)


def test_messages_without_a_key_go_round() -> None:
    # covers WS-7
    around = Router(3, "RoundRobinPartition", "JavaStringHash", 4)
    assert [around.partition_of(None) for _ in range(4)] == [1, 2, 0, 1]
    single = Router(3, "SinglePartition", "JavaStringHash", 4)
    assert [single.partition_of(None) for _ in range(3)] == [1, 1, 1]
