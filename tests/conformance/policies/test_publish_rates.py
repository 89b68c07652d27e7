"""Rates of publishing, as policies: what comes too fast is stored later, and nothing is refused."""

from __future__ import annotations

import threading
import time

import pulsar

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, receive_texts
from tests.conformance.test_namespaces import fresh
from tests.eventually import eventually

RATE = {"publishThrottlingRateInMsg": 20, "publishThrottlingRateInByte": -1}


def seconds_of(producer: pulsar.Producer, messages: int) -> float:
    """How long it takes until so many messages, sent at once, have their receipts."""
    results: list[pulsar.Result] = []
    done = threading.Event()

    def receipt(result: pulsar.Result, _: pulsar.MessageId) -> None:
        results.append(result)
        if len(results) == messages:
            done.set()

    began = time.monotonic()
    for number in range(messages):
        producer.send_async(str(number).encode(), receipt)
    assert done.wait(60)
    assert set(results) == {pulsar.Result.Ok}
    return time.monotonic() - began


def test_a_namespace_slows_its_topics_down_and_refuses_nothing(broker: Broker, namespace: str) -> None:
    # covers PR-14
    topic = f"persistent://public/{namespace.rpartition('/')[2]}/t"
    client = broker.client()
    producer = client.create_producer(topic)
    assert broker.rest("GET", f"{namespace}/publishRate") == (200, "")
    assert broker.rest("POST", f"{namespace}/publishRate", RATE)[0] == 204
    assert broker.rest("GET", f"{namespace}/publishRate") == (200, RATE)
    eventually(lambda: seconds_of(producer, 40) > 0.5, timeout_s=60)
    # A second of the rate at most goes at once.
    assert seconds_of(producer, 100) > 3
    assert broker.rest("DELETE", f"{namespace}/publishRate")[0] == 204
    eventually(lambda: seconds_of(producer, 40) < 0.5, timeout_s=60)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    assert receive_texts(consumer, 40) == [str(number) for number in range(40)]


def test_a_topic_has_a_rate_of_its_own(broker: Broker, namespace: str) -> None:
    # covers PR-14
    topic = f"persistent://public/{namespace.rpartition('/')[2]}/t"
    producer = broker.client().create_producer(topic)
    path = f"{topic_path(topic)}/publishRate"
    # Apache Pulsar keeps topic policies in a topic, which has to come up first.
    eventually(lambda: broker.rest("POST", path, RATE)[0] == 204, timeout_s=60)
    eventually(lambda: broker.rest("GET", path) == (200, RATE), timeout_s=60)
    eventually(lambda: seconds_of(producer, 40) > 0.5, timeout_s=60)
    assert broker.rest("DELETE", path)[0] == 204
    eventually(lambda: broker.rest("GET", path)[0] == 204, timeout_s=60)
    eventually(lambda: seconds_of(producer, 40) < 0.5, timeout_s=60)


def test_a_client_that_is_held_back_fills_its_queue_and_loses_nothing_of_it(broker: Broker, namespace: str) -> None:
    # covers PR-14, PR-16
    topic = f"persistent://public/{namespace.rpartition('/')[2]}/t"
    assert broker.rest("POST", f"{namespace}/publishRate", RATE)[0] == 204
    producer = broker.client().create_producer(topic, max_pending_messages=10)
    eventually(lambda: seconds_of(producer, 10) > 0.2, timeout_s=60)
    results: list[pulsar.Result] = []
    for number in range(60):
        producer.send_async(str(number).encode(), lambda result, _: results.append(result))
    producer.flush()
    eventually(lambda: len(results) == 60)
    assert set(results) == {pulsar.Result.Ok, pulsar.Result.ProducerQueueIsFull}
    assert results.count(pulsar.Result.Ok) >= 10


def test_a_namespace_slows_its_non_persistent_topics_down_too(broker: Broker, namespace: str) -> None:
    # covers PR-14: in Apache Pulsar those that come into use afterwards, here all of them
    prefix = f"non-persistent://public/{namespace.rpartition('/')[2]}/"
    client = broker.client()
    assert broker.rest("POST", f"{namespace}/publishRate", RATE)[0] == 204

    def received_slowly() -> list[str] | None:
        topic = prefix + fresh("t")
        consumer = client.subscribe(topic, "s")
        took_s = seconds_of(client.create_producer(topic), 40)
        return receive_texts(consumer, 40) if took_s > 0.5 else None

    assert eventually(received_slowly, timeout_s=60) == [str(number) for number in range(40)], "nothing is dropped"


def test_a_non_persistent_topic_has_no_rate_of_its_own(broker: Broker, namespace: str) -> None:
    # covers PR-14: it is taken and answered, and that is all
    topic = f"non-persistent://public/{namespace.rpartition('/')[2]}/t"
    producer = broker.client().create_producer(topic)
    path, rate = f"{topic_path(topic)}/publishRate", {**RATE, "publishThrottlingRateInMsg": 1}
    eventually(lambda: broker.rest("POST", path, rate)[0] == 204, timeout_s=60)
    eventually(lambda: broker.rest("GET", path) == (200, rate), timeout_s=60)
    assert seconds_of(producer, 60) < 30
