"""Several transaction coordinators: the admin API makes more, and each counts for itself."""

from __future__ import annotations

from tests.brokers import Broker
from tests.conformance.outliving import Halves, outlives_a_kill
from tests.conformance.transactions import Transacting, Transaction, refusal
from tests.eventually import eventually

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
