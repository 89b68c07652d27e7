"""Transactions over `kill -9` of the broker: what was answered holds, and nothing is half done."""

from __future__ import annotations

from tests.brokers import Broker
from tests.conformance.outliving import Halves, outlives_a_kill
from tests.conformance.transactions.transacting import Transacting, Transaction, filled, refusal
from tests.eventually import eventually


def _back(broker: Broker) -> Transacting:
    """The broker after a kill, and a connection to its coordinator."""
    found: list[Transacting] = []

    def connected() -> bool:
        client = Transacting(broker)
        answer = client.raw.request("NEW_TXN", txn_ttl_millis=60_000, tc_id=0)
        if refusal(answer)[0] is None:
            client.abort((0, answer.fields.get("txnid_least_bits", 0)))
            found.append(client)
        return bool(found)

    assert eventually(connected)
    return found[0]


@outlives_a_kill
def test_open_and_ended_transactions_survive(own_broker: Broker) -> Halves:
    # covers TX-17, TX-3, TX-11
    client = Transacting(own_broker)
    topic, positions = filled(client, count=4)
    other = own_broker.topic()
    client.produce(other, 2)
    client.subscribe(other, consumer_id=2)
    committed = client.begin(topic, other, subscriptions={topic: "s"})
    client.send(b"committed", committed)
    client.send(b"committed", committed, 2)
    client.ack(positions[0], committed)
    client.commit(committed)
    aborted = client.begin(topic, subscriptions={topic: "s"})
    client.send(b"aborted", aborted)
    client.ack(positions[1], aborted)
    client.abort(aborted)
    opened = client.begin(topic, other, subscriptions={topic: "s"}, ttl_ms=600_000)
    client.send(b"open", opened)
    client.send(b"open", opened, 2)
    client.ack(positions[2], opened)
    plain = client.send(b"plain")

    yield
    client = _back(own_broker)
    assert client.begin()[1] > opened[1]
    assert client.end(committed, "COMMIT")["error"] == "TransactionNotFound"
    client.subscribe(topic)
    assert client.take(3) == [b"1", b"3", b"committed"]
    client.subscribe(other, consumer_id=2)
    assert client.take(1) == [b"committed"]
    client.subscribe(topic, "Exclusive", "late", consumer_id=3, permits=0)
    assert client.last_position(3) < plain
    client.commit(opened)
    assert sorted(client.take(3)) == [b"open", b"open", b"plain"]
    assert eventually(lambda: client.cursor(topic)[0] == 0)
    assert client.last_position(3) == plain


@outlives_a_kill
def test_a_time_out_goes_on(own_broker: Broker) -> Halves:
    # covers TX-17, TX-7, TX-3
    client = Transacting(own_broker)
    topic, positions = filled(client, count=2)
    transaction = client.begin(topic, subscriptions={topic: "s"}, ttl_ms=2000)
    client.send(b"open", transaction)
    client.send(b"plain")
    client.ack(positions[0], transaction)
    yield
    client = _back(own_broker)
    assert eventually(lambda: client.add_topics(transaction, topic).fields.get("error") == "TransactionNotFound")
    client.subscribe(topic)
    assert {frame.payload for frame in client.raw.expect_messages(3)} == {b"0", b"1", b"plain"}


@outlives_a_kill
def test_cumulative_acks_and_those_inside_batches_survive(own_broker: Broker) -> Halves:
    # covers TX-17, TX-13, TX-14
    client = Transacting(own_broker)
    ordered, positions = filled(client, "Exclusive", count=4)
    topic = own_broker.topic()
    client.produce(topic, 2)
    batch = client.send_batch(4, producer_id=2)
    client.subscribe(topic, consumer_id=2)
    client.raw.expect_messages(1)
    transaction = client.begin(subscriptions={ordered: "s", topic: "s"}, ttl_ms=600_000)
    client.ack(positions[2], transaction, "Cumulative")
    client.ack(batch, transaction, consumer_id=2, ack_set=[0b1010], batch_size=4)

    yield
    client = _back(own_broker)
    client.subscribe(ordered, "Exclusive")
    client.subscribe(topic, consumer_id=2)
    client.raw.expect_messages(5)
    other = client.begin(subscriptions={ordered: "s", topic: "s"})
    assert client.ack(positions[3], other, "Cumulative")["error"] == "TransactionConflict"
    refused = client.ack(batch, other, consumer_id=2, ack_set=[0b1110], batch_size=4)
    assert refused["error"] == "TransactionConflict"
    client.commit(transaction)
    assert eventually(lambda: client.cursor(ordered)[0] == 2)
    client.close_consumer(2)
    client.subscribe(topic, consumer_id=2)
    assert client.take_frames(1)[0]["ack_set"] == [0b1010]


ASSIGN = "persistent://pulsar/system/transaction_coordinator_assign"


def _begin(client: Transacting, coordinator: int) -> Transaction:
    """A transaction of that coordinator, once it serves."""
    opened: list[Transaction] = []

    def begun() -> bool:
        client.raw.request("LOOKUP", topic=f"{ASSIGN}-partition-{coordinator}")
        client.raw.request("TC_CLIENT_CONNECT_REQUEST", tc_id=coordinator)
        answer = client.raw.request("NEW_TXN", txn_ttl_millis=60_000, tc_id=coordinator)
        if refusal(answer)[0] is None:
            opened.append((answer.fields.get("txnid_most_bits", 0), answer.fields.get("txnid_least_bits", 0)))
        return bool(opened)

    assert eventually(begun)
    return opened[0]


@outlives_a_kill
def test_more_coordinators_are_made_and_stay(own_broker: Broker) -> Halves:
    # covers TX-2, TX-3, TX-22, TX-17
    client = Transacting(own_broker)
    first = client.begin()
    assert client.raw.request("NEW_TXN", txn_ttl_millis=60_000, tc_id=2)["error"] == "TransactionCoordinatorNotFound"
    assert client.admin("transactionCoordinator/replicas", "POST", 3)[0] == 204
    assert client.admin("transactionCoordinator/replicas", "POST", 2)[0] == 406
    assert eventually(lambda: client.raw.request("PARTITIONED_METADATA", topic=ASSIGN)["partitions"] == 3)
    listed = sorted(each["id"] for each in client.admin("coordinators")[1])
    assert listed == [0, 1, 2]
    topic = own_broker.topic()
    client.produce(topic)
    client.subscribe(topic)
    other = _begin(client, 2)
    assert other == (2, 0)
    for transaction, payload in ((first, b"first"), (other, b"other")):
        assert refusal(client.add_topics(transaction, topic)) == (None, "")
        client.send(payload, transaction)
    client.abort(first)
    client.commit(other)
    assert client.take(1) == [b"other"]

    yield
    client = Transacting(own_broker)
    assert client.raw.request("PARTITIONED_METADATA", topic=ASSIGN)["partitions"] == 3
    again = _begin(client, 2)
    assert again[0] == 2
    assert again[1] > other[1]
    assert refusal(client.end(again, "ABORT")) == (None, "")
