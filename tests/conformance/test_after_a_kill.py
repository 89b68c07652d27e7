"""What a broker still knows after `kill -9`: the tests of all features, done to one broker that is killed once."""

from __future__ import annotations

from typing import Any

import pulsar
import pytest

from spark_pulsar import RetryLetters
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, SHARED, expect_nothing, receive, receive_texts, send_all
from tests.conformance.outliving import Halves, outlives_a_kill
from tests.conformance.policies.test_policies import RETENTION
from tests.conformance.schemas import B_WITH_DEFAULT, A, Schemas, record
from tests.conformance.test_access_modes import ask
from tests.conformance.test_admin_cursors import EARLIEST_ID, sub
from tests.conformance.test_bundles import QUARTERS, edges
from tests.conformance.test_compaction import compact, compacted_view, kept_topic, values_of
from tests.conformance.test_dead_letters import backlog_of
from tests.conformance.test_deduplication import answer_to, deduplicating, is_repeated, opened
from tests.conformance.test_delayed_delivery import earliest_ms, now_ms
from tests.conformance.test_namespaces import fresh
from tests.conformance.test_placement import CLUSTERS, POLICY
from tests.conformance.test_topic_actions import last_id
from tests.eventually import eventually
from tests.raw import Frame


@outlives_a_kill
def test_the_epoch_of_a_topic_survives_a_kill(own_broker: Broker) -> Halves:
    # covers PR-7
    topic = own_broker.topic()
    raw = own_broker.raw()
    assert ask(raw, topic, "a", "Exclusive")["topic_epoch"] == 0
    raw.request("CLOSE_PRODUCER", producer_id=1)
    assert ask(raw, topic, "b", "Exclusive", 2)["topic_epoch"] == 1
    yield
    raw = own_broker.raw()

    def answer(name: str, producer_id: int, **fields: Any) -> Frame:
        """A real broker is not ready for a while after its start."""
        return eventually(
            lambda: (
                frame
                if (frame := ask(raw, topic, name, "Exclusive", producer_id, **fields)).fields.get("error")
                != "ServiceNotReady"
                else None
            ),
            timeout_s=30,
        )

    stale = answer("a", 1, topic_epoch=0)
    assert stale["error"] == "ProducerFenced"
    assert stale["message"].endswith("Topic epoch has already moved. Current epoch: 1, Producer epoch: 0")
    assert answer("b", 2, topic_epoch=1)["topic_epoch"] == 1
    raw.request("CLOSE_PRODUCER", producer_id=2)
    assert answer("c", 3)["topic_epoch"] == 2


@outlives_a_kill
def test_bundles_outlive_a_kill(own_broker: Broker) -> Halves:
    # covers ADM-61
    name = own_broker.namespace()
    assert own_broker.rest("PUT", f"/admin/v2/namespaces/{name}/0x00000000_0x40000000/split") == (204, "")
    yield
    assert edges(own_broker, name) == ["0x00000000", "0x20000000", *QUARTERS[1:]]


@outlives_a_kill
def test_placement_outlives_a_kill(own_broker: Broker) -> Halves:
    # covers ADM-57
    path = f"{CLUSTERS}/standalone"
    assert own_broker.rest("POST", f"{path}/failureDomains/d1", {"brokers": ["b1"]}) == (204, "")
    assert own_broker.rest("POST", f"{path}/namespaceIsolationPolicies/p1", POLICY) == (204, "")
    yield
    assert own_broker.rest("GET", f"{path}/failureDomains") == (200, {"d1": {"brokers": ["b1"]}})
    assert own_broker.rest("GET", f"{path}/namespaceIsolationPolicies") == (200, {"p1": POLICY})


@outlives_a_kill
def test_policies_survive_a_restart(own_broker: Broker) -> Halves:
    # covers DUR-7, ADM-66, ADM-67 (durable)
    namespace = f"/admin/v2/namespaces/public/{fresh('ns')}"
    topic = topic_path(f"persistent://public/{namespace.rpartition('/')[2]}/t")
    assert own_broker.rest("PUT", namespace)[0] == 204
    assert own_broker.rest("PUT", topic)[0] == 204
    assert own_broker.rest("POST", f"{namespace}/retention", RETENTION)[0] == 204
    assert own_broker.rest("POST", f"{topic}/messageTTL?messageTTL=9")[0] == 204
    yield
    assert own_broker.rest("GET", f"{namespace}/retention") == (200, RETENTION)
    assert eventually(lambda: own_broker.rest("GET", f"{topic}/messageTTL") == (200, 9))


@outlives_a_kill
def test_schemas_outlive_a_kill(own_broker: Broker) -> Halves:
    # covers SC-1
    topic = own_broker.topic()
    asked = Schemas(own_broker.raw())
    assert [asked.produce(topic, record(A)), asked.produce(topic, record(A, B_WITH_DEFAULT))] == [0, 1]
    yield
    again = Schemas(own_broker.raw())
    assert again.get(topic)["schema"]["schema_data"] == record(A, B_WITH_DEFAULT).hex()
    assert eventually(lambda: again.produce(topic, record(A)) == 0 or None, timeout_s=60)


@outlives_a_kill
def test_the_end_of_a_topic_survives_a_kill(own_broker: Broker) -> Halves:
    # covers TN-13
    topic = own_broker.topic()
    send_all(own_broker.client().create_producer(topic), ["a"])
    last = last_id(own_broker, topic)
    yield
    client = own_broker.client(operation_timeout_seconds=30)
    with pytest.raises(pulsar.TopicTerminated):
        client.create_producer(topic)
    assert last_id(own_broker, topic) == last
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    assert receive_texts(consumer, 1) == ["a"]


@outlives_a_kill
def test_properties_outlive_a_kill(own_broker: Broker) -> Halves:
    # covers CUR-19, CUR-8
    topic = own_broker.topic()
    own_broker.client().subscribe(topic, "s", SHARED).close()
    assert own_broker.rest("PUT", f"{sub(topic)}/properties", {"a": "1", "ü": ""}) == (204, "")
    assert own_broker.rest("PUT", sub(topic, "t"), {**EARLIEST_ID, "properties": {"k": "v"}})[0] == 204
    yield
    assert own_broker.rest("GET", f"{sub(topic)}/properties") == (200, {"a": "1", "ü": ""})
    assert own_broker.rest("GET", f"{sub(topic, 't')}/properties") == (200, {"k": "v"})


@outlives_a_kill
def test_a_restart_forgets_it(own_broker: Broker) -> Halves:
    # covers NP-7, DUR-8
    topic = "non-" + own_broker.topic()
    client = own_broker.client()
    client.subscribe(topic, "s", SHARED)
    listing = "/admin/v2/non-persistent/public/default"
    assert topic in own_broker.rest("GET", listing)[1]
    client.close()
    yield
    assert topic not in own_broker.rest("GET", listing)[1]
    client = own_broker.client()
    consumer = client.subscribe(topic, "s", SHARED)
    send_all(client.create_producer(topic), ["again"])
    assert receive_texts(consumer, 1) == ["again"]


@outlives_a_kill
def test_retry_letters_outlive_the_broker(own_broker: Broker) -> Halves:
    # covers RLQ-5
    topic = own_broker.topic()
    client = own_broker.client()
    letters = RetryLetters(client, topic, "s")
    consumer = client.subscribe(letters.topics, "s", SHARED)
    client.create_producer(topic).send(b"bad")
    (message,) = receive(consumer, 1)
    letters.reconsume_later(consumer, message, delay_ms=2_000)
    eventually(lambda: backlog_of(own_broker, topic, "s") == 0)
    client.close()
    yield
    consumer = own_broker.client().subscribe(letters.retry_letter_topic, "s", SHARED)
    (again,) = receive(consumer, 1, timeout_ms=60_000)
    assert (again.data(), again.properties()["REAL_TOPIC"]) == (b"bad", topic)


@outlives_a_kill
def test_ids_are_known_after_a_kill(own_broker: Broker) -> Halves:
    # covers DED-7
    topic = deduplicating(own_broker)
    client = own_broker.client()
    send_all(client.create_producer(topic, producer_name="p"), [str(number) for number in range(1_500)])
    client.close()
    yield
    raw, ready = opened(own_broker, topic)
    assert ready["last_sequence_id"] == 1_499
    assert [is_repeated(answer_to(raw, number)) for number in (1_400, 1_499, 1_500)] == [True, True, False]


@outlives_a_kill
def test_times_survive_a_crash(own_broker: Broker) -> Halves:
    # covers DEL-7
    topic = own_broker.topic()
    client = own_broker.client()
    consumer = client.subscribe(topic, "s", SHARED)
    producer = client.create_producer(topic)
    deliver_at_ms = now_ms() + 4_000
    for number in range(10):
        producer.send(str(number).encode(), deliver_at=deliver_at_ms)
    if now_ms() < deliver_at_ms - 2_000:
        expect_nothing(consumer)
    client.close()
    yield
    again = own_broker.client().subscribe(topic, "s", SHARED)
    (first,) = receive(again, 1, timeout_ms=60_000)
    assert now_ms() >= earliest_ms(own_broker, deliver_at_ms)
    assert [first.data().decode(), *receive_texts(again, 9)] == [str(number) for number in range(10)]
    expect_nothing(again)


# The last to begin: the broker is killed in the middle of it.
@outlives_a_kill
def test_a_kill_in_the_middle_leaves_one_view_or_the_other(own_broker: Broker) -> Halves:
    # covers CMP-C4
    topic, client = kept_topic(own_broker), own_broker.client(operation_timeout_seconds=60)
    producer = client.create_producer(topic, block_if_queue_full=True)
    for number in range(3_000):
        producer.send_async(str(number).encode(), None, partition_key=f"k{number % 100}")
    producer.flush()
    compact(own_broker, topic)
    for number in range(3_000, 6_000):
        producer.send_async(str(number).encode(), None, partition_key=f"k{number % 50}")
    producer.flush()
    assert own_broker.rest("PUT", f"{topic_path(topic)}/compaction")[0] == 204
    yield
    last = {f"k{number % (100 if number < 3_000 else 50)}": str(number) for number in range(6_000)}
    view = eventually(lambda: compacted_view(client, topic), timeout_s=60)
    assert {message.partition_key(): message.data().decode() for message in view} == last
    compact(own_broker, topic)
    assert sorted(values_of(compacted_view(client, topic))) == sorted(last.values())
