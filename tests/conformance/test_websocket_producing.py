"""WebSockets that publish, on both brokers; the official client reads what they published."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pulsar
import pytest

from tests.brokers import Broker
from tests.eventually import eventually
from tests.websocket import encoded, opened, path_of, refused


def _received(consumer: Any, count: int) -> list[Any]:
    return [consumer.receive(timeout_millis=20_000) for _ in range(count)]


def _consumer(broker: Broker, topic: str) -> Any:
    return broker.client().subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)


def test_a_message_is_published_with_all_that_it_has(broker: Broker, topic: str) -> None:
    # covers WS-4, WS-5, WS-6
    consumer = _consumer(broker, topic)
    with opened(broker, path_of("producer", topic)) as producer:
        plain = producer.call({"payload": encoded("plain")})
        rich = producer.call(
            {
                "payload": encoded(bytes(range(256))),
                "properties": {"a": "b", "n": 5},
                "context": "mine",
                "key": "k",
                "eventTime": "2024-01-31T12:00:00.123456+02:00",
                "unknown": [1, 2],
            }
        )
        producer.call({"payload": ""})
    assert {key: plain[key] for key in plain if key != "messageId"} == {
        "result": "ok",
        "errorCode": 0,
        "schemaVersion": 0,
    }
    assert rich["context"] == "mine"
    first, second, third = _received(consumer, 3)
    assert (first.data(), first.properties(), first.partition_key()) == (b"plain", {}, "")
    assert (second.data(), second.properties()) == (bytes(range(256)), {"a": "b", "n": "5"})
    assert (second.partition_key(), second.event_timestamp()) == ("k", 1706695200123)
    assert third.data() == b""
    for answer, message in ((plain, first), (rich, second)):
        found = pulsar.MessageId.deserialize(base64.b64decode(answer["messageId"]))
        of_message = message.message_id()
        assert (found.ledger_id(), found.entry_id()) == (of_message.ledger_id(), of_message.entry_id())


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("nonsense", "send-error:3"),
        ("[]", "send-error:3"),
        ('{"payload":"aGk=","deliverAt":"x"}', "send-error:3"),
        ('{"payload":{}}', "send-error:3"),
        ("{}", "send-error:7"),
        ('{"payload":null}', "send-error:7"),
        ('{"payload":"%%%"}', "send-error:7"),
        ('{"payload":"aGk=","eventTime":"yesterday"}', "send-error:7"),
        ('{"payload":"aGk=","eventTime":"2024-01-01T00:00:00"}', "send-error:7"),
        ('{"payload":"aGk"}', "ok"),
    ],
)
def test_a_text_that_is_no_message_is_answered(broker: Broker, text: str, result: str) -> None:
    # covers WS-6
    with opened(broker, path_of("producer", broker.topic())) as producer:
        assert producer.call(text)["result"] == result
        assert producer.call({"payload": encoded("next")})["result"] == "ok"


def test_bytes_mean_nothing_and_the_context_comes_back(broker: Broker) -> None:
    # covers WS-6, WS-5
    with opened(broker, path_of("producer", broker.topic())) as producer:
        producer.send(b'{"payload":"aGk="}')
        assert producer.call({"payload": None, "context": "c"})["context"] == "c"
        assert producer.call({"payload": encoded("text"), "context": "t"})["context"] == "t"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"producerName": ""}, 400),
        ({"initialSequenceId": "x"}, 400),
        ({"hashingScheme": "bad"}, 400),
        ({"sendTimeoutMillis": "-1"}, 400),
        ({"sendTimeoutMillis": "x"}, 400),
        ({"messageRoutingMode": "bad"}, 400),
        ({"compressionType": "lz4"}, 400),
        ({"batchingEnabled": "true", "batchingMaxMessages": "x"}, 400),
        ({"batchingEnabled": "true", "maxPendingMessages": "-1"}, 400),
        ({"encryptionKeys": "k"}, 500),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused(broker: Broker, query: dict[str, str], status: int) -> None:
    # covers WS-3
    assert refused(broker, path_of("producer", broker.topic(), **query))[0] == status


@pytest.mark.parametrize(
    "query",
    [
        {"producerName": "mine"},
        {"hashingScheme": "Murmur3_32Hash"},
        {"sendTimeoutMillis": "0"},
        {"messageRoutingMode": "RoundRobinPartition"},
        {"batchingMaxMessages": "x", "maxPendingMessages": "-1", "batchingMaxPublishDelay": "x"},  # unused
        {"compressionType": "ZSTD"},
        {"unknown": "x", "token": "not needed"},
    ],
)
def test_a_parameter_that_fits_is_taken(broker: Broker, topic: str, query: dict[str, str]) -> None:
    # covers WS-3
    consumer = _consumer(broker, topic)
    with opened(broker, path_of("producer", topic, **query)) as producer:
        assert producer.call({"payload": encoded("text" * 100)})["result"] == "ok"
        names = [each["producerName"] for each in broker.stats(topic)["publishers"]]
        assert len(names) == 1
        if "producerName" in query:
            assert names == ["mine"]
    assert _received(consumer, 1)[0].data() == b"text" * 100


def test_paths_of_no_websocket_and_a_terminated_topic(broker: Broker, topic: str) -> None:
    # covers WS-2, WS-1
    assert refused(broker, "/ws/v2/nothing/persistent/public/default/t")[0] == 404
    assert refused(broker, "/ws/v2/producer/persistent/public/no-such-namespace/t")[0] == 404
    assert refused(broker, "/ws/v2/producer/persistent/no-such-tenant/default/t")[0] == 404
    assert broker.rest("GET", path_of("producer", broker.topic()))[0] == 405
    broker.client().create_producer(topic).close()
    assert broker.rest("POST", f"/admin/v2/{topic.replace('://', '/', 1)}/terminate")[0] == 200
    assert refused(broker, path_of("producer", topic))[0] == 503


@pytest.mark.ours_only("WS-1")
def test_a_topic_name_that_is_none_is_a_bad_request(broker: Broker) -> None:
    # covers WS-1
    assert refused(broker, "/ws/v2/producer/persistent/public/default")[0] == 400
    assert refused(broker, "/ws/v2/producer/bad/public/default/t")[0] == 400
    status, body = refused(broker, "/ws/producer/persistent/public/standalone/default/t")
    assert (status, "v1" in json.loads(body)["reason"]) == (404, True)


def test_messages_of_a_batch_have_ids_of_their_own(broker: Broker, topic: str) -> None:
    # covers WS-4, WS-7
    consumer = _consumer(broker, topic)
    query = {"batchingEnabled": "true", "batchingMaxMessages": 3, "batchingMaxPublishDelay": 60_000}
    with opened(broker, path_of("producer", topic, compressionType="LZ4", **query)) as producer:
        for index in range(3):
            producer.send({"payload": encoded(f"m{index}"), "key": f"k{index}", "properties": {"i": str(index)}})
        answers = [producer.receive() for _ in range(3)]
    ids = [pulsar.MessageId.deserialize(base64.b64decode(each["messageId"])) for each in answers]
    assert [each.batch_index() for each in ids] == [0, 1, 2]
    assert len({each.entry_id() for each in ids}) == 1
    messages = _received(consumer, 3)
    assert [each.data() for each in messages] == [b"m0", b"m1", b"m2"]
    assert [each.partition_key() for each in messages] == ["k0", "k1", "k2"]
    assert [each.properties()["i"] for each in messages] == ["0", "1", "2"]


def test_a_batch_waits_no_longer_than_its_delay(broker: Broker) -> None:
    # covers WS-7
    query = {"batchingEnabled": "true", "batchingMaxMessages": 100, "batchingMaxPublishDelay": 20}
    with opened(broker, path_of("producer", broker.topic(), **query)) as producer:
        assert producer.call({"payload": encoded("alone")})["result"] == "ok"


KEYS = ["a", "order-7", "grün", "日本", "🚀 long key", ""]


@pytest.mark.parametrize(
    ("scheme", "partitions"), [("JavaStringHash", [1, 0, 1, 3, 0, 0]), ("Murmur3_32Hash", [2, 2, 2, 2, 3, 0])]
)
def test_a_key_chooses_the_partition(broker: Broker, scheme: str, partitions: list[int]) -> None:
    # covers WS-7
    topic = broker.topic(partitions=4)
    consumer = _consumer(broker, topic)
    with opened(broker, path_of("producer", topic, hashingScheme=scheme)) as producer:
        answers = [producer.call({"payload": encoded(key), "key": key}) for key in KEYS]
    ids = [pulsar.MessageId.deserialize(base64.b64decode(each["messageId"])) for each in answers]
    assert [each.partition() for each in ids] == partitions
    received = {each.data(): each.message_id().partition() for each in _received(consumer, len(KEYS))}
    assert [received[key.encode()] for key in KEYS] == partitions


def test_messages_without_a_key_go_to_one_partition_or_round(broker: Broker) -> None:
    # covers WS-7
    for mode, count in (("SinglePartition", 1), ("RoundRobinPartition", 3)):
        topic = broker.topic(partitions=3)
        with opened(broker, path_of("producer", topic, messageRoutingMode=mode)) as producer:
            answers = [producer.call({"payload": encoded("x")}) for _ in range(6)]
        ids = [pulsar.MessageId.deserialize(base64.b64decode(each["messageId"])) for each in answers]
        assert len({each.partition() for each in ids}) == count


def test_a_delayed_message_comes_later(broker: Broker, topic: str) -> None:
    # covers WS-5
    consumer = broker.client().subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    with opened(broker, path_of("producer", topic)) as producer:
        started_s = time.monotonic()
        producer.call({"payload": encoded("later"), "deliverAfterMs": 1500})
        producer.call({"payload": encoded("now")})
    assert [each.data() for each in _received(consumer, 2)] == [b"now", b"later"]
    assert time.monotonic() - started_s > 1.2


def test_a_name_is_for_one_websocket_and_goes_with_it(broker: Broker, topic: str) -> None:
    # covers WS-2
    with opened(broker, path_of("producer", topic)) as producer:
        producer.call({"payload": encoded("x")})
        assert len(broker.stats(topic)["publishers"]) == 1
    eventually(lambda: broker.stats(topic)["publishers"] == [])
    with opened(broker, path_of("producer", topic, producerName="p")):
        assert refused(broker, path_of("producer", topic, producerName="p"))[0] == 409


def test_a_thousand_messages_in_flight_are_answered_in_order(broker: Broker) -> None:
    # covers WS-6
    with opened(broker, path_of("producer", broker.topic())) as producer:
        for index in range(1000):
            producer.send({"payload": encoded("x" * 100), "context": str(index)})
        answers = [producer.receive() for _ in range(1000)]
    assert [each["context"] for each in answers] == [str(index) for index in range(1000)]
