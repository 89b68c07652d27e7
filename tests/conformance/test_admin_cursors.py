"""Subscriptions over REST: made, listed, moved, looked into, deleted; beside official clients on the same topic."""

from __future__ import annotations

import urllib.parse

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import expect_nothing, receive, receive_texts, send_all, send_batched, texts
from tests.eventually import eventually
from tests.raw import RawConnection

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
EARLIEST_ID = {"ledgerId": -1, "entryId": -1}
LATEST_ID = {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}


def sub(topic: str, name: str = "s") -> str:
    return f"{topic_path(topic)}/subscription/{name}"


def filled(broker: Broker, count: int, subscription: str | None = "s") -> tuple[str, list[pulsar.MessageId]]:
    """A topic with a durable subscription and these messages after it."""
    topic = broker.topic()
    client = broker.client()
    if subscription is not None:
        client.subscribe(topic, subscription, SHARED, initial_position=EARLIEST).close()
    return topic, send_all(client.create_producer(topic), [str(number) for number in range(count)])


def id_of(message_id: pulsar.MessageId, **more: object) -> dict[str, object]:
    return {"ledgerId": message_id.ledger_id(), "entryId": message_id.entry_id(), **more}


def _rest(broker: Broker, topic: str, subscription: str = "s") -> list[str]:
    """What a consumer of the subscription gets now, unacknowledged."""
    consumer = broker.client().subscribe(topic, subscription, SHARED)
    got = receive_texts(consumer, broker.backlog(topic, subscription))
    expect_nothing(consumer)
    consumer.close()
    return got


def now_ms(broker: Broker) -> int:
    """The time of the clock by which messages are published here."""
    topic, _ = filled(broker, 1)
    consumer = broker.client().subscribe(topic, "s", SHARED)
    return int(receive(consumer, 1)[0].publish_timestamp())


# ---- coming and going -------------------------------------------------------------------------------------------


def test_a_subscription_is_made_at_the_end_unless_a_place_is_named(broker: Broker) -> None:
    # covers CUR-9, ADM-74
    topic, ids = filled(broker, 5)
    assert broker.rest("PUT", sub(topic, "latest"))[0] == 204
    assert broker.rest("PUT", sub(topic, "named-latest"), LATEST_ID)[0] == 204
    assert broker.rest("PUT", sub(topic, "earliest"), EARLIEST_ID)[0] == 204
    assert broker.rest("PUT", sub(topic, "third"), id_of(ids[2]))[0] == 204
    assert broker.rest("PUT", sub(topic, "after-third"), id_of(ids[2], excluded=True))[0] == 204
    # (excluded means nothing here, only to a reset.)
    assert broker.rest("PUT", sub(topic, "past"), {"ledgerId": ids[0].ledger_id(), "entryId": 99})[0] == 204
    expected = {"latest": 0, "named-latest": 0, "earliest": 5, "third": 3, "after-third": 3, "past": 0}
    assert {name: broker.backlog(topic, name) for name in expected} == expected
    assert _rest(broker, topic, "third") == ["2", "3", "4"]
    status, names = broker.rest("GET", f"{topic_path(topic)}/subscriptions")
    assert (status, sorted(names)) == (200, sorted([*expected, "s"]))
    status, answer = broker.rest("PUT", sub(topic, "latest"))
    assert (status, answer["reason"]) == (409, "Subscription already exists for topic")


def test_a_subscription_makes_its_topic(broker: Broker, topic: str) -> None:
    # covers TN-7, PT-7, ADM-74
    assert broker.rest("PUT", sub(topic))[0] == 204
    assert broker.rest("GET", f"{topic_path(topic)}/subscriptions") == (200, ["s"])
    parted = broker.topic(partitions=3)
    assert broker.rest("PUT", sub(parted), EARLIEST_ID)[0] == 204
    assert broker.rest("GET", f"{topic_path(parted)}/subscriptions") == (200, ["s"])
    assert broker.rest("GET", f"{topic_path(parted)}-partition-2/subscriptions") == (200, ["s"])
    assert broker.rest("PUT", sub(parted))[0] == 409


def test_a_reader_is_listed_too(broker: Broker) -> None:
    # covers ADM-74, CUR-8
    topic, _ = filled(broker, 1)
    reader = broker.client().create_reader(topic, pulsar.MessageId.earliest, reader_name="me")
    names = broker.rest("GET", f"{topic_path(topic)}/subscriptions")[1]
    assert (len(names), "s" in names) == (2, True)
    reader.close()
    eventually(lambda: broker.rest("GET", f"{topic_path(topic)}/subscriptions") == (200, ["s"]))


def test_a_subscription_is_deleted_unless_somebody_is_connected(broker: Broker) -> None:
    # covers CUR-16, ADM-74
    topic, _ = filled(broker, 1)
    consumer = broker.client().subscribe(topic, "s")
    status, answer = broker.rest("DELETE", sub(topic))
    assert (status, answer["reason"]) == (412, "Subscription has active connected consumers")
    consumer.close()
    assert broker.rest("DELETE", sub(topic)) == (204, "")
    assert broker.rest("GET", f"{topic_path(topic)}/subscriptions") == (200, [])
    status, answer = broker.rest("DELETE", sub(topic))
    assert (status, answer["reason"]) == (404, f"Subscription s not found for topic {topic}")


def test_what_is_missing_is_named(broker: Broker) -> None:
    # covers ADM-74
    topic, _ = filled(broker, 1)
    parted = broker.topic(partitions=2)
    broker.client().subscribe(parted, "s", SHARED).close()
    missing_topic = f"{topic_path(topic)}-missing"
    for method, path in [
        ("POST", f"{sub(topic, 'x')}/skip_all"),
        ("POST", f"{sub(topic, 'x')}/skip/1"),
        ("POST", f"{sub(topic, 'x')}/resetcursor/1"),
        ("POST", f"{sub(topic, 'x')}/expireMessages/1"),
        ("GET", f"{sub(topic, 'x')}/properties"),
    ]:
        status, answer = broker.rest(method, path)
        assert (status, answer["reason"]) == (404, f"Subscription x not found for topic {topic}"), path
    assert broker.rest("GET", f"{missing_topic}/subscriptions")[0] == 404
    assert broker.rest("POST", f"{missing_topic}/subscription/s/skip_all")[0] == 404
    assert broker.rest("POST", f"{sub(topic)}/skip/nonsense")[0] == 404
    status, answer = broker.rest("POST", f"{sub(parted)}/skip/1")
    assert (status, answer["reason"]) == (405, "Skip messages on a partitioned topic is not allowed")
    status, answer = broker.rest("POST", f"{sub(parted)}/resetcursor", EARLIEST_ID)
    assert (status, answer["reason"]) == (405, "Reset-cursor at position is not allowed for partitioned-topic")
    assert broker.rest("POST", f"{sub(parted)}/expireMessages", EARLIEST_ID)[0] == 405
    status, answer = broker.rest("GET", f"{sub(parted)}/position/1")
    assert (status, answer["reason"]) == (405, "Peek messages on a partitioned topic is not allowed")


def test_properties_of_a_subscription(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers CUR-19, ADM-74
    client.subscribe(topic, "s").close()
    assert broker.rest("GET", f"{sub(topic)}/properties") == (200, {})
    assert broker.rest("PUT", f"{sub(topic)}/properties", {"a": "1", "b": "2"}) == (204, "")
    assert broker.rest("PUT", f"{sub(topic)}/properties", {"b": "3"}) == (204, "")
    assert broker.rest("GET", f"{sub(topic)}/properties") == (200, {"b": "3"})
    stats = broker.stats(topic)
    assert stats["subscriptions"]["s"]["subscriptionProperties"] == {"b": "3"}
    assert broker.rest("PUT", sub(topic, "t"), {**LATEST_ID, "properties": {"k": "v"}})[0] == 204
    assert broker.rest("GET", f"{sub(topic, 't')}/properties") == (200, {"k": "v"})


def test_acked_ranges_are_shown_and_join_mark_delete(broker: Broker, raw: RawConnection) -> None:
    # covers CUR-1, CUR-2
    topic, ids = filled(broker, 5)
    ledger = ids[0].ledger_id()

    def shown() -> tuple[str, str]:
        cursor = broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]["cursors"]["s"]
        return cursor["markDeletePosition"], cursor["individuallyDeletedMessages"]

    raw.subscribe(topic)
    for entries, expected in [
        ((1, 2), (f"{ledger}:-1", f"[({ledger}:0..{ledger}:2]]")),
        ((4,), (f"{ledger}:-1", f"[({ledger}:0..{ledger}:2],({ledger}:3..{ledger}:4]]")),
        ((0,), (f"{ledger}:2", f"[({ledger}:3..{ledger}:4]]")),
        ((3,), (f"{ledger}:4", "[]")),
    ]:
        raw.request("ACK", consumer_id=1, ack_type="Individual", message_id=[id_of(ids[each]) for each in entries])
        assert shown() == expected


def test_the_flag_of_replicated_subscriptions_is_accepted(broker: Broker, raw: RawConnection) -> None:
    # covers CUR-20
    topic, _ = filled(broker, 1)
    assert broker.rest("PUT", f"{sub(topic, 't')}?replicated=true", EARLIEST_ID)[0] == 204
    assert _rest(broker, topic, "t") == ["0"]
    raw.subscribe(topic, permits=10, subscription="u", replicate_subscription_state=True)
    assert raw.expect("MESSAGE").payload == b"0"


# ---- moving -----------------------------------------------------------------------------------------------------


def test_skipping(broker: Broker) -> None:
    # covers CUR-14
    topic, _ = filled(broker, 10)
    consumer = broker.client().subscribe(topic, "s", SHARED)
    for message in receive(consumer, 10)[3:5]:
        consumer.acknowledge(message)
    consumer.close()
    eventually(lambda: broker.backlog(topic) == 8)
    assert broker.rest("POST", f"{sub(topic)}/skip/4") == (204, "")
    assert _rest(broker, topic) == ["6", "7", "8", "9"]
    assert broker.rest("POST", f"{sub(topic)}/skip/0") == (204, "")
    assert broker.backlog(topic) == 4
    assert broker.rest("POST", f"{sub(topic)}/skip/99") == (204, "")
    assert broker.backlog(topic) == 0


def test_skipping_reaches_a_connected_consumer(broker: Broker) -> None:
    # covers CUR-14 (dispatch goes on behind what was skipped)
    topic, _ = filled(broker, 6)
    consumer = broker.client().subscribe(topic, "s", SHARED, receiver_queue_size=1)
    first = receive(consumer, 1)[0]
    assert first.data() == b"0"
    assert broker.rest("POST", f"{sub(topic)}/skip/4")[0] == 204
    assert texts(receive(consumer, 2))[-1] in ("4", "5"), "at most one message was on its way"
    assert broker.backlog(topic) == 2


def test_clearing_thebacklog(broker: Broker, client: pulsar.Client) -> None:
    # covers CUR-14
    topic, _ = filled(broker, 10)
    consumer = broker.client().subscribe(topic, "other", SHARED, initial_position=EARLIEST)
    assert broker.rest("POST", f"{sub(topic)}/skip_all") == (204, "")
    assert (broker.backlog(topic), broker.backlog(topic, "other")) == (0, 10)
    assert len(receive(consumer, 10)) == 10
    parted = broker.topic(partitions=2)
    client.subscribe(parted, "s", SHARED).close()
    send_all(client.create_producer(parted), [str(number) for number in range(6)])
    assert broker.rest("POST", f"{sub(parted)}/skip_all") == (204, "")
    expect_nothing(client.subscribe(parted, "s", SHARED))


def test_reset_to_a_position(broker: Broker) -> None:
    # covers CUR-11, CUR-13
    topic, ids = filled(broker, 10)
    consumer = broker.client().subscribe(topic, "s")
    for message in receive(consumer, 10):
        consumer.acknowledge(message)
    eventually(lambda: broker.backlog(topic) == 0)  # else acks that the client has grouped may come after the reset
    assert broker.rest("POST", f"{sub(topic)}/resetcursor", id_of(ids[4])) == (204, "")
    assert receive_texts(consumer, 6) == ["4", "5", "6", "7", "8", "9"], "the consumer was closed and came back"
    consumer.close()
    assert broker.rest("POST", f"{sub(topic)}/resetcursor", id_of(ids[4], excluded=True)) == (204, "")
    assert _rest(broker, topic) == ["5", "6", "7", "8", "9"]
    assert broker.rest("POST", f"{sub(topic)}/resetcursor", EARLIEST_ID) == (204, "")
    assert broker.backlog(topic) == 10
    assert broker.rest("POST", f"{sub(topic)}/resetcursor", LATEST_ID) == (204, "")
    assert broker.backlog(topic) == 0


def test_reset_into_a_batch(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers CUR-11 (batch index), CUR-3
    client.subscribe(topic, "s").close()
    ids = send_batched(client, topic, ["a", "b", "c", "d"])
    assert broker.rest("POST", f"{sub(topic)}/resetcursor", id_of(ids[0], batchIndex=2)) == (204, "")
    consumer = client.subscribe(topic, "s", batch_index_ack_enabled=True)
    assert receive_texts(consumer, 2) == ["c", "d"]
    consumer.close()
    assert broker.rest("POST", f"{sub(topic)}/resetcursor", id_of(ids[0], batchIndex=2, excluded=True)) == (204, "")
    assert receive_texts(client.subscribe(topic, "s", batch_index_ack_enabled=True), 1) == ["d"]


def test_reset_to_a_time(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers CUR-12, CUR-13
    raw.produce(topic)
    assert broker.rest("PUT", sub(topic))[0] == 204
    for number in range(5):
        raw.send_message(1, number, str(number).encode(), metadata={"publish_time": 1_000_000 + 1_000 * number})
        raw.expect("SEND_RECEIPT")
    for time_ms, expected in [(0, 5), (1_001_999, 3), (1_002_000, 3), (1_002_001, 2), (1_004_001, 0)]:
        assert broker.rest("POST", f"{sub(topic)}/resetcursor/{time_ms}") == (204, "")
        assert broker.backlog(topic) == expected, time_ms


def _expire(broker: Broker, path: str, body: object = None) -> None:
    """Expire; Apache Pulsar answers before it is done, and refuses the next one (409) until then."""
    eventually(lambda: broker.rest("POST", path, body) == (204, ""))


def test_expiring_by_age(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers TTL-8
    raw.produce(topic)
    for name in ("s", "t"):
        assert broker.rest("PUT", sub(topic, name))[0] == 204
    sent_ms = now_ms(broker)
    for number, age_s in enumerate((7_200, 7_200, 3_600, 0)):
        metadata = {"publish_time": sent_ms - 1_000 * age_s}
        raw.send_message(1, number, str(number).encode(), metadata=metadata)
        raw.expect("SEND_RECEIPT")
    _expire(broker, f"{sub(topic)}/expireMessages/9000")
    _expire(broker, f"{sub(topic)}/expireMessages/5000")
    eventually(lambda: broker.backlog(topic) == 2)
    assert _rest(broker, topic) == ["2", "3"]
    _expire(broker, f"{topic_path(topic)}/all_subscription/expireMessages/2000")
    eventually(lambda: (broker.backlog(topic), broker.backlog(topic, "t")) == (1, 1))
    assert broker.rest("POST", f"{sub(topic)}/skip_all")[0] == 204
    status, answer = broker.rest("POST", f"{sub(topic)}/expireMessages/1")
    assert status == 409
    assert answer["reason"].startswith(f"Expire message by timestamp not issued on topic {topic} for subscription s")


def test_expiring_where_nothing_is_old_enough(broker: Broker, client: pulsar.Client) -> None:
    # covers TTL-8
    topic, _ = filled(broker, 3)
    parted = broker.topic(partitions=2)
    connected = [client.subscribe(each, "s", SHARED) for each in (topic, parted)]
    for path in (
        f"{topic_path(topic)}/all_subscription",
        sub(topic),
        sub(parted),
        f"{topic_path(parted)}/all_subscription",
    ):
        assert broker.rest("POST", f"{path}/expireMessages/100")[0] == 409, path
    connected[0].close()
    assert broker.rest("POST", f"{topic_path(topic)}/all_subscription/expireMessages/100") == (204, "")
    status, answer = broker.rest("POST", f"{sub(parted)}/expireMessages/100")
    assert (status, f"{parted}-partition-" in answer["reason"]) == (409, True)


def test_a_subscription_of_some_partitions_is_deleted_and_reported(broker: Broker) -> None:
    # covers CUR-16
    parted = broker.topic(partitions=2)
    broker.client().subscribe(f"{parted}-partition-0", "half").close()
    for _ in range(2):
        status, answer = broker.rest("DELETE", sub(parted, "half"))
        assert (status, answer["reason"]) == (404, "Subscription not found")
    assert broker.rest("GET", f"{topic_path(parted)}-partition-0/subscriptions") == (200, [])


def test_expiring_to_a_position(broker: Broker) -> None:
    # covers TTL-8
    topic, ids = filled(broker, 6)
    _expire(broker, f"{sub(topic)}/expireMessages", id_of(ids[1]))
    eventually(lambda: broker.backlog(topic) == 4)

    def expired() -> tuple[int, bool]:
        stats = broker.subscription(topic)
        return stats["totalMsgExpired"], stats["lastExpireTimestamp"] > 0

    eventually(lambda: expired() == (2, True))  # Apache Pulsar counts after it has moved the cursor
    mark = broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]["cursors"]["s"]["markDeletePosition"]
    assert mark == f"{ids[1].ledger_id()}:{ids[1].entry_id()}"
    assert _rest(broker, topic) == ["2", "3", "4", "5"]
    status, answer = broker.rest("POST", f"{sub(topic)}/expireMessages", {**id_of(ids[0]), "entryId": 99})
    assert (status, "invalid message position provided" in answer["reason"]) == (409, True)


@pytest.mark.ours_only("TTL-8: 4.0.8 takes an excluded position for the one after it")
def test_expiring_before_a_position(broker: Broker) -> None:
    # covers TTL-8
    topic, ids = filled(broker, 6)
    _expire(broker, f"{sub(topic)}/expireMessages", id_of(ids[4], excluded=True))
    assert broker.backlog(topic) == 2
    _expire(broker, f"{sub(topic)}/expireMessages", id_of(ids[0], excluded=True))
    assert _rest(broker, topic) == ["4", "5"]


# ---- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a sub", "ü", "x/y", "100%", "a%2Fb", "a+b"])
def test_a_subscription_with_any_name(broker: Broker, name: str) -> None:
    # covers T-8, T-10
    topic, _ = filled(broker, 3, name)
    once = urllib.parse.quote(name, safe="")
    twice = sub(topic, urllib.parse.quote(once, safe=""))
    path = twice if {"%", "+"} & set(name) else sub(topic, once)
    assert broker.rest("POST", f"{path}/skip/1") == (204, "")
    assert broker.backlog(topic, name) == 2
    for escaped in (path, twice):
        assert broker.rest("GET", f"{escaped}/position/1")[0] == 200
    assert broker.rest("GET", f"{topic_path(topic)}/subscriptions") == (200, [name])
    assert broker.rest("DELETE", twice) == (204, "")
    assert broker.rest("GET", f"{topic_path(topic)}/subscriptions") == (200, [])


def test_a_topic_with_a_space(broker: Broker) -> None:
    # covers T-9
    topic = f"{broker.topic()} of mine"
    assert broker.rest("PUT", topic_path(topic).replace("%20", "+")) == (204, "")
    assert broker.rest("GET", f"{topic_path(topic)}/stats")[0] == 200
