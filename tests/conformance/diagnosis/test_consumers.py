"""Causes at consumers, staged with the official client, and named by `spark-pulsar why`."""

from __future__ import annotations

from datetime import timedelta

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.diagnosis.findings import among, findings, named
from tests.conformance.exchange import EARLIEST, SHARED, receive, send_numbers
from tests.conformance.transactions.transacting import Transacting
from tests.eventually import eventually


@pytest.fixture(scope="module")
def client(broker: Broker) -> pulsar.Client:
    """One client for all cases."""
    return broker.client()


def _subscribe(client: pulsar.Client, topic: str, name: str = "a1", **settings: object) -> pulsar.Consumer:
    settings = {"consumer_type": SHARED, "initial_position": EARLIEST, "consumer_name": name} | settings
    return client.subscribe(topic, "billing", **settings)


def test_no_consumer(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-1, WHY-3
    topic = broker.topic()
    _subscribe(client, topic).close()
    send_numbers(broker, topic, 20)
    sentence = named(broker, "no-consumer", topic, "billing")
    assert sentence.startswith('No consumer is connected to "billing"; its 20 messages wait, the oldest since ')


def test_position_at_latest_and_all_acknowledged(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-3
    topic = broker.topic()
    with_all = client.subscribe(topic, "all", initial_position=EARLIEST)
    send_numbers(broker, topic, 3)
    late = client.subscribe(topic, "late", consumer_type=SHARED)
    sentence = named(broker, "at-latest", topic, "late")
    assert sentence.startswith('"late" stands at the latest position, behind the 3 stored entries')
    late.seek(pulsar.MessageId.earliest)  # as the advice says
    assert [message.data() for message in receive(late, 3)] == [b"0", b"1", b"2"]
    for message in receive(with_all, 3):
        with_all.acknowledge(message)
    eventually(lambda: broker.backlog(topic, "all") == 0)
    sentence = among(broker, "all-acknowledged", topic, "all")["sentence"]
    assert '"all" has acknowledged all messages; nothing new was published' in sentence
    assert findings(broker, topic, "all")[0]["state"] == "note"  # Exclusive: nothing is wrong
    eventually(lambda: broker.subscription(topic, "late")["consumers"])
    assert named(broker, "unacknowledged", topic).startswith('The 3 messages of the backlog of "late" are sent')


def test_nothing_published(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-3
    topic = broker.topic()
    _subscribe(client, topic)
    assert named(broker, "nothing-published", topic) == (
        "Nothing was published to the topic yet, and no producer is connected."
    )


def test_it_receives(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-2
    topic = broker.topic()
    consumer = client.subscribe(
        topic, "billing", SHARED, message_listener=lambda consumer, message: consumer.acknowledge(message)
    )
    assert consumer.topic() == topic
    producer = client.create_producer(topic)
    running = [True]

    def send_next(result: object, message_id: object) -> None:
        if running[0]:
            producer.send_async(b"x", send_next)

    producer.send_async(b"x", send_next)
    finding = among(broker, "received", topic, "billing")
    running[0] = False
    assert (finding["state"], finding["sentence"].startswith('"billing" received ')) == ("ok", True)


def test_unacknowledged_limits(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-4
    namespace = broker.namespace()
    policies = f"/admin/v2/namespaces/{namespace}"
    assert broker.rest("POST", f"{policies}/maxUnackedMessagesPerConsumer", 5)[0] == 204
    topic = f"persistent://{namespace}/of-consumer"
    _subscribe(client, topic)
    send_numbers(broker, topic, 20)
    sentence = named(broker, "unacked-limit-of-consumer", topic, "billing")
    assert sentence.startswith('Consumer "a1" of "billing" holds ')
    assert sentence.endswith("unacknowledged messages, the limit of a consumer (5): the broker sends no more.")
    assert broker.rest("POST", f"{policies}/maxUnackedMessagesPerConsumer", 0)[0] == 204
    assert broker.rest("POST", f"{policies}/maxUnackedMessagesPerSubscription", 8)[0] == 204
    topic = f"persistent://{namespace}/of-subscription"
    _subscribe(client, topic, "a1")
    _subscribe(client, topic, "a2")
    send_numbers(broker, topic, 30)
    sentence = named(broker, "unacked-limit-of-subscription", topic, "billing")
    assert sentence.endswith("unacknowledged messages together, its limit (8): the broker sends no more.")


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_no_permits(broker: Broker, client: pulsar.Client, kind: str) -> None:
    # covers WHY-4
    topic = broker.topic()
    _subscribe(client, topic, consumer_type=getattr(pulsar.ConsumerType, kind), receiver_queue_size=5)
    send_numbers(broker, topic, 20)
    sentence = named(broker, "no-permits", topic, "billing")
    assert sentence == (
        'Consumer "a1" of "billing" has no permits: its receive queue is full (5 sent), since the application does not '
        "receive; 20 messages wait."
    )
    causes = [finding["cause"] for finding in findings(broker, topic, "billing")]
    assert causes == ["no-permits", *(["exclusive-held"] if kind == "Exclusive" else [])]


def test_unacknowledged(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-4
    topic = broker.topic()
    consumer = _subscribe(client, topic)
    send_numbers(broker, topic, 4)
    receive(consumer, 4)
    sentence = named(broker, "unacknowledged", topic, "billing")
    assert sentence.startswith(
        'The 4 messages of the backlog of "billing" are sent and not acknowledged: "a1" from 127.'
    )
    assert sentence.endswith("(4 unacknowledged).")


def test_delayed(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-3
    topic = broker.topic()
    _subscribe(client, topic)
    producer = client.create_producer(topic)
    for _ in range(3):
        producer.send(b"later", deliver_after=timedelta(hours=1))
    sentence = named(broker, "delayed", topic, "billing")
    assert sentence.startswith('3 messages of "billing" are delayed')
    assert sentence.endswith("; no other message waits.")


def test_exclusive_and_failover(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-4
    topic = broker.topic()
    _subscribe(client, topic, consumer_type=pulsar.ConsumerType.Exclusive)
    with pytest.raises(pulsar.ConsumerBusy):
        _subscribe(client, topic, "a2", consumer_type=pulsar.ConsumerType.Exclusive)
    sentence = named(broker, "exclusive-held", topic, "billing")
    assert sentence.startswith('"billing" is Exclusive and held by consumer "a1" from 127.0.0.1:')
    assert sentence.endswith("; a second consumer is refused.")
    topic = broker.topic()
    _subscribe(client, topic, "b1", consumer_type=pulsar.ConsumerType.Failover)
    _subscribe(client, topic, "b2", consumer_type=pulsar.ConsumerType.Failover)
    sentence = named(broker, "failover-standby", topic, "billing")
    assert sentence.startswith('"billing" is Failover: consumer "b')
    assert sentence.endswith("waits and receives nothing until it leaves.")


def test_key_shared(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-5
    topic = broker.topic()
    shared = {"consumer_type": pulsar.ConsumerType.KeyShared}
    first = _subscribe(client, topic, **shared)
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(40):
        producer.send(b"x", partition_key=str(number))
    receive(first, 40)  # and acknowledges none
    _subscribe(client, topic, "a2", **shared)
    for number in range(40):
        producer.send(b"x", partition_key=str(number))
    sentence = named(broker, "keys-draining", topic, "billing")
    assert 'of "billing" moved to other consumers' in sentence
    assert '"a1" (' in sentence
    topic = broker.topic()
    policy = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=[(0, 99)])
    _subscribe(client, topic, key_shared_policy=policy, **shared)
    producer = client.create_producer(topic)
    producer.send(b"x", partition_key="k")
    sentence = named(broker, "keys-unowned", topic, "billing")
    assert sentence.startswith('No consumer of "billing" owns the hash ranges 100-65535 of 0-65535')


def test_dispatch_rate(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-4
    namespace = broker.namespace()
    rate = {"dispatchThrottlingRateInMsg": 1, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
    assert broker.rest("POST", f"/admin/v2/namespaces/{namespace}/subscriptionDispatchRate", rate)[0] == 204
    topic = f"persistent://{namespace}/t"
    _subscribe(client, topic).close()
    send_numbers(broker, topic, 60)
    _subscribe(client, topic)
    sentence = named(broker, "dispatch-rate", topic, "billing")
    assert sentence.startswith('The dispatch rate of the subscription of 1 messages a second holds "billing" back: ')


def test_open_transaction(broker: Broker) -> None:
    # covers WHY-3
    topic = broker.topic()
    transacting = Transacting(broker)
    transacting.produce(topic)
    transacting.subscribe(topic, name="billing")
    transaction = transacting.begin(topic)
    transacting.send(b"in", transaction)
    transacting.send(b"behind")
    sentence = named(broker, "transaction-open", topic, "billing")
    assert sentence.startswith('2 messages of "billing" wait for 1 open transaction, the oldest of which, (')
    transacting.commit(transaction)


def test_expired(broker: Broker, client: pulsar.Client) -> None:
    # covers WHY-3
    topic = broker.topic()
    _subscribe(client, topic).close()
    messages = send_numbers(broker, topic, 5)
    last = {"ledgerId": messages[-1].ledger_id(), "entryId": messages[-1].entry_id(), "partitionIndex": -1}
    path = f"{topic_path(topic)}/subscription/billing/expireMessages"
    assert broker.rest("POST", path, last)[0] == 204
    _subscribe(client, topic)
    sentence = named(broker, "expired", topic, "billing")
    assert '5 messages of "billing" expired by ' in sentence


def test_encrypted(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> None:
    # covers WHY-3
    from tests.conformance.connector.key_pairs import rsa_pair

    topic = broker.topic()
    client = broker.client()
    _subscribe(client, topic).close()
    reader = pulsar.CryptoKeyReader(*rsa_pair(tmp_path_factory.mktemp("keys")))
    client.create_producer(topic, encryption_key="k", crypto_key_reader=reader).send(b"secret")
    assert "is encrypted" in among(broker, "encrypted", topic, "billing")["sentence"]
