"""Switches of the configuration that stand the other way round (`SWITCHED`): batches acked whole, ranges of hashes, a
journal without syncs, no transactions."""

from __future__ import annotations

from typing import Any

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import EARLIEST, SHARED, receive, receive_texts, send_all, send_batched, texts
from tests.raw import RawConnection


@pytest.fixture(scope="module")
def broker(switched_broker: Broker) -> Broker:
    return switched_broker


# ---- acknowledgmentAtBatchIndexLevelEnabled=false


ABCD = ["a", "b", "c", "d"]


def _subscribed(broker: Broker, **settings: object) -> tuple[pulsar.Client, str, pulsar.Consumer]:
    topic, client = broker.topic(), broker.client()
    return client, topic, client.subscribe(topic, "s", initial_position=EARLIEST, **settings)


@pytest.mark.parametrize("indexes", [False, True], ids=["client groups them", "client asks for single ones"])
def test_part_of_a_batch_is_not_acked(broker: Broker, indexes: bool) -> None:
    # covers ACK-9 (switch off), BAT-5, CUR-3
    client, topic, consumer = _subscribed(broker, consumer_type=SHARED, batch_index_ack_enabled=indexes)
    send_batched(client, topic, ABCD)
    send_batched(client, topic, ABCD)
    messages = receive(consumer, 8)
    for message in [*messages[:3], *messages[4:]]:
        consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", SHARED)
    assert receive_texts(again, 4) == ABCD
    assert broker.backlog(topic) == 1, "with its last message the second batch was acked whole"


def test_a_cumulative_ack_inside_a_batch_acks_what_is_before_it(broker: Broker) -> None:
    # covers ACK-9 (switch off), ACK-10
    client, topic, consumer = _subscribed(broker)
    send_batched(client, topic, ["0", "1"])
    send_batched(client, topic, ABCD)
    consumer.acknowledge_cumulative(receive(consumer, 6)[3])
    consumer.close()
    assert texts(receive(client.subscribe(topic, "s"), 4)) == ABCD
    assert broker.backlog(topic) == 1


def test_raw_bit_sets_are_ignored(broker: Broker, raw: RawConnection) -> None:
    # covers ACK-9 (switch off: nothing is removed even when all bits were acked one by one)
    client, topic, consumer = _subscribed(broker, consumer_type=SHARED)
    consumer.close()
    (message_id, *_) = send_batched(client, topic, ABCD)
    raw.subscribe(topic)
    place = {"ledgerId": message_id.ledger_id(), "entryId": message_id.entry_id(), "batch_size": 4}
    for bits in (0b1110, 0b1101, 0b1011, 0b0111):
        ids = [{**place, "ack_set": [bits]}]
        assert raw.request("ACK", consumer_id=1, ack_type="Individual", message_id=ids).type == "ACK_RESPONSE"
    assert broker.backlog(topic) == 1
    ids = [{"ledgerId": place["ledgerId"], "entryId": place["entryId"]}]
    assert raw.request("ACK", consumer_id=1, ack_type="Individual", message_id=ids).type == "ACK_RESPONSE"
    assert broker.backlog(topic) == 0


# ---- subscriptionKeySharedUseConsistentHashing=false


def test_who_joins_takes_half_of_the_widest_range_and_who_leaves_gives_it_to_a_neighbour(
    broker: Broker, topic: str
) -> None:
    # covers KS-3, KS-4, KS-5, X6, X7, X8: the worked example of the concepts, step by step
    producer = broker.client().create_producer(topic, batching_enabled=False)
    consumers: dict[str, RawConnection] = {}

    def ranges() -> list[tuple[str, int, int]]:
        """Who has which hashes, from below."""
        stats = broker.subscription(topic)["consumers"]
        found = [(each["consumerName"], *pair) for each in stats for pair in each["keyHashRangeArrays"]]
        return sorted(found, key=lambda each: each[1:])

    def join(name: str) -> None:
        raw = consumers[name] = broker.raw()
        raw.subscribe(topic, permits=100, subType="Key_Shared", consumer_name=name)

    def leave(name: str) -> None:
        assert consumers.pop(name).request("CLOSE_CONSUMER", consumer_id=1).type == "SUCCESS"

    def expect_at(name: str) -> None:
        """The order of the example, with slot 6067, is for that one."""
        producer.send(b"x", partition_key="Order-3459134")
        message = consumers[name].expect("MESSAGE")
        consumers[name].ack(message.id)

    join("C1")
    whole = ranges()
    assert [(name, end) for name, _, end in whole] == [("C1", whole[-1][2])]
    expect_at("C1")
    steps = [
        (join, "C2", ["C2", "C1"], [32768]),
        (join, "C3", ["C3", "C2", "C1"], [16384, 32768]),
        (join, "C4", ["C3", "C2", "C4", "C1"], [16384, 32768, 49152]),
        (leave, "C4", ["C3", "C2", "C1"], [16384, 32768]),
        (leave, "C1", ["C3", "C2"], [16384]),
    ]
    for step, name, names, bounds in steps:
        step(name)
        found = ranges()
        assert [each[0] for each in found] == names
        assert [end for _, _, end in found[:-1]] == bounds
        assert [start for _, start, _ in found] == [whole[0][1], *(end + 1 for end in bounds)]
        assert found[-1][2] == whole[0][2]
        expect_at(names[0])


# ---- transactionCoordinatorEnabled=false


REFUSED: dict[str, dict[str, Any]] = {
    "TC_CLIENT_CONNECT_REQUEST": {"tc_id": 0},
    "NEW_TXN": {"txn_ttl_millis": 60, "tc_id": 0},
    "ADD_PARTITION_TO_TXN": {"txnid_least_bits": 1, "txnid_most_bits": 0, "partitions": ["t"]},
    "ADD_SUBSCRIPTION_TO_TXN": {
        "txnid_least_bits": 1,
        "txnid_most_bits": 0,
        "subscription": [{"topic": "t", "subscription": "s"}],
    },
    "END_TXN": {"txnid_least_bits": 1, "txnid_most_bits": 0, "txn_action": "COMMIT"},
}


@pytest.mark.parametrize("command", REFUSED)
def test_a_command_is_refused(raw: RawConnection, command: str) -> None:
    # covers A1, TX-1
    answer = raw.request(command, **REFUSED[command])
    assert (answer.type, answer["error"]) == ("ERROR", "NotAllowedError")
    raw.barrier()


def test_the_admin_api_tells_why(broker: Broker) -> None:
    # covers TX-1, TX-22
    base, topic = "/admin/v3/transactions", broker.topic()
    local = topic.partition("://")[2]
    calls = [
        ("GET", "coordinators"),
        ("GET", "coordinatorStats"),
        ("GET", "transactionMetadata/0/0"),
        ("GET", "slowTransactions/1"),
        ("GET", f"transactionBufferStats/{local}"),
        ("GET", f"transactionInBufferStats/{local}/0/0"),
        ("GET", f"pendingAckStats/{local}/s"),
        ("GET", f"transactionInPendingAckStats/{local}/s/0/0"),
        ("GET", f"positionStatsInPendingAck/{local}/s/0/0"),
        ("POST", "abortTransaction/0/0"),
    ]
    reason = "This Broker is not configured with transactionCoordinatorEnabled=true."
    assert {broker.rest(method, f"{base}/{path}")[1]["reason"] for method, path in calls} == {reason}
    assert {broker.rest(method, f"{base}/{path}")[0] for method, path in calls} == {503}
    assert broker.rest("POST", f"{base}/transactionCoordinator/replicas", 2) == (503, {"reason": reason})


def test_messages_and_acks_in_a_transaction_are_refused(raw: RawConnection, topic: str) -> None:
    # covers TX-1
    raw.produce(topic)
    raw.subscribe(topic)
    ids: dict[str, Any] = {"txnid_least_bits": 1, "txnid_most_bits": 0}
    raw.send_message(1, 0, b"in a transaction", **ids)
    assert raw.expect("SEND_ERROR")["error"] == "NotAllowedError"
    raw.send_message(1, 1, b"plain")
    ledger_id, entry_id = raw.expect("SEND_RECEIPT").position
    message_id = [{"ledgerId": ledger_id, "entryId": entry_id}]
    answer = raw.request("ACK", consumer_id=1, ack_type="Individual", message_id=message_id, **ids)
    assert (answer.type, answer["error"]) == ("ACK_RESPONSE", "NotAllowedError")


# ---- journalSyncData=false


def test_what_was_receipted_without_a_sync_outlives_a_kill(broker: Broker, topic: str) -> None:
    # covers DUR-5
    client = broker.client(operation_timeout_seconds=60)
    client.subscribe(topic, "keep").close()
    sent = send_all(client.create_producer(topic), [str(number) for number in range(200)])
    broker.kill()
    broker.restart()
    messages = receive(broker.client(operation_timeout_seconds=60).create_reader(topic, pulsar.MessageId.earliest), 200)
    assert [message.message_id() for message in messages] == sent
