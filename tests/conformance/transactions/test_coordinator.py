"""The transaction coordinator: ids, what a transaction takes in, its end and its time-out."""

from __future__ import annotations

import pytest

from tests.brokers import Broker
from tests.conformance.transactions.transacting import Transacting, filled, refusal
from tests.eventually import eventually
from tests.raw import Frame, RawConnection

NOT_FOUND = "The transaction with this txdID `({},{})`not found "
NO_COORDINATOR = "Transaction coordinator with id {} not found!"


def test_the_coordinator_is_a_partition_of_the_assign_topic(broker: Broker, raw: RawConnection) -> None:
    # covers TX-2
    topic = "persistent://pulsar/system/transaction_coordinator_assign"
    assert raw.request("PARTITIONED_METADATA", topic=topic)["partitions"] == 1
    found = raw.request("LOOKUP", topic=f"{topic}-partition-0")
    assert (found["response"], found["brokerServiceUrl"]) == ("Connect", broker.service_url)
    for _ in range(2):
        answer = raw.request("TC_CLIENT_CONNECT_REQUEST", tc_id=0)
        assert (answer.type, refusal(answer)) == ("TC_CLIENT_CONNECT_RESPONSE", (None, ""))


def test_a_coordinator_that_does_not_exist(client: Transacting) -> None:
    # covers TX-2
    answers = [
        client.raw.request("NEW_TXN", txn_ttl_millis=1000, tc_id=9),
        client.add_topics((9, 1), "t"),
        client.add_subscription((9, 1), "t"),
        client.end((9, 1), "COMMIT"),
    ]
    expected = ("TransactionCoordinatorNotFound", NO_COORDINATOR.format(9))
    assert [refusal(answer) for answer in answers] == [expected] * 4
    assert answers[0]["txnid_most_bits"] == 9


def test_ids_count_up_on_every_connection(broker: Broker, client: Transacting) -> None:
    # covers TX-3
    first = client.begin()
    other = broker.raw()
    answer = other.request("NEW_TXN", txn_ttl_millis=60_000)
    assert (answer.fields.get("txnid_most_bits", 0), answer["txnid_least_bits"]) == (0, first[1] + 1)
    third = client.begin()
    assert third == (0, first[1] + 2)
    for transaction in (first, (0, first[1] + 1), third):
        client.abort(transaction)


@pytest.mark.parametrize("action", ["COMMIT", "ABORT"])
def test_a_transaction_ends_once(client: Transacting, action: str) -> None:
    # covers TX-6, TX-4, TX-5
    transaction = client.begin()
    answer = client.end(transaction, action)
    assert (answer.type, refusal(answer)) == ("END_TXN_RESPONSE", (None, ""))
    assert answer["txnid_least_bits"] == transaction[1]
    later = [
        client.end(transaction, action),
        client.end(transaction, "ABORT" if action == "COMMIT" else "COMMIT"),
        client.add_topics(transaction, "t"),
        client.add_subscription(transaction, "t"),
    ]
    assert [refusal(each) for each in later] == [("TransactionNotFound", NOT_FOUND.format(*transaction))] * 4


def test_a_number_that_was_never_given(client: Transacting) -> None:
    # covers TX-4, TX-5, TX-6
    never = (0, 99_999_999)
    answers: list[Frame] = [
        client.end(never, "COMMIT"),
        client.add_topics(never, "t"),
        client.add_subscription(never, "t"),
    ]
    assert [answer.type for answer in answers] == [
        "END_TXN_RESPONSE",
        "ADD_PARTITION_TO_TXN_RESPONSE",
        "ADD_SUBSCRIPTION_TO_TXN_RESPONSE",
    ]
    assert [refusal(answer) for answer in answers] == [("TransactionNotFound", NOT_FOUND.format(*never))] * 3


@pytest.mark.parametrize("action", ["COMMIT", "ABORT"])
def test_topics_and_subscriptions_that_do_not_exist_are_no_obstacle(broker: Broker, action: str) -> None:
    # covers TX-4, TX-5, TX-6
    client = Transacting(broker)
    there, missing, other = broker.topic(), broker.topic("missing"), broker.topic("missing")
    parent = broker.topic("partitioned", partitions=2)
    client.produce(there)
    transaction = client.begin(missing, missing, parent, f"{parent}-partition-0", there)
    for topic, name in ((there, "none"), (other, "s"), (there, "none")):
        assert refusal(client.add_subscription(transaction, topic, name)) == (None, "")
    assert refusal(client.add_topics(transaction)) == (None, "")
    assert refusal(client.end(transaction, action)) == (None, "")
    _, topics = broker.rest("GET", "/admin/v2/persistent/public/default")
    assert there in topics
    assert not {missing, other} & set(topics)


def test_short_names_are_the_topic(client: Transacting) -> None:
    # covers TX-22, TX-4, TX-5
    topic, positions = filled(client, count=1)
    short = topic.rpartition("/")[2]
    transaction = client.begin(short, subscriptions={short: "s"})
    _, told = client.metadata(transaction)
    assert (told["producedPartitions"], told["ackedPartitions"]) == ({short: {"aborted": False}}, {short: {"s": {}}})
    client.send(b"in", transaction)
    assert refusal(client.ack(positions[0], transaction)) == (None, "")
    client.commit(transaction)
    assert client.take(1) == [b"in"]
    assert client.cursor(topic)[0] == 0


def test_a_transaction_is_aborted_at_its_time_out(client: Transacting) -> None:
    # covers TX-7, TX-3
    topic, positions = filled(client, count=1)
    transaction = client.begin(topic, subscriptions={topic: "s"}, ttl_ms=1500)
    client.send(b"late", transaction)
    client.send(b"plain")
    client.ack(positions[0], transaction)
    frames = client.take_frames(2)
    assert sorted(frame.payload or b"" for frame in frames) == [b"0", b"plain"]
    gone = ("TransactionNotFound", NOT_FOUND.format(*transaction))
    assert eventually(lambda: refusal(client.add_topics(transaction, topic)) == gone)
    answers = [
        client.end(transaction, "COMMIT"),
        client.end(transaction, "ABORT"),
        client.add_subscription(transaction, topic),
    ]
    assert [refusal(answer) for answer in answers] == [gone] * 3


def test_what_a_vanished_client_left_is_aborted_at_its_time_out(broker: Broker, topic: str) -> None:
    # covers TX-7
    client, gone = Transacting(broker), Transacting(broker)
    client.produce(topic)
    client.subscribe(topic)
    gone.produce(topic)
    gone.send(b"left", gone.begin(topic, ttl_ms=1500))
    gone.raw.close()
    client.send(b"plain")
    assert client.take(1) == [b"plain"]


def test_a_transaction_outlives_the_connection_that_opened_it(broker: Broker, topic: str) -> None:
    # covers TX-3, TX-6
    first, second = Transacting(broker), Transacting(broker)
    first.produce(topic)
    transaction = first.begin(topic)
    first.send(b"one", transaction)
    first.raw.close()
    second.produce(topic)
    second.send(b"two", transaction)
    second.subscribe(topic)
    second.commit(transaction)
    assert second.take(2) == [b"one", b"two"]
