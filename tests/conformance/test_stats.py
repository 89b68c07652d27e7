"""Statistics of topics: members, sizes, ages, what is left out when asked."""

from __future__ import annotations

import urllib.request

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import receive, receive_texts, receive_up_to, send_all
from tests.eventually import eventually


def test_who_is_connected(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers ST-1, T-6, T-7, ST-6
    consumer = client.subscribe(topic, "s", properties={"who": "me"})
    producer = client.create_producer(topic, producer_name="namely", properties={"a": "b"})
    send_all(producer, ["x"])
    receive_texts(consumer, 1)
    stats = broker.stats(topic)
    subscription = stats["subscriptions"]["s"]
    (one,), (publisher,) = subscription["consumers"], stats["publishers"]
    assert (publisher["producerName"], publisher["metadata"], one["metadata"]) == ("namely", {"a": "b"}, {"who": "me"})
    assert "127.0.0.1" in publisher["address"]
    assert " " not in publisher["clientVersion"]
    assert (subscription["type"], subscription["consumersAfterMarkDeletePosition"]) == ("Exclusive", {})
    assert subscription["activeConsumerName"] == one["consumerName"]


def test_sizes_are_those_of_what_is_stored(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers ST-2, 5.5 (size accounting)
    idle = client.subscribe(topic, "idle")
    busy = client.subscribe(topic, "busy")
    send_all(client.create_producer(topic, batching_enabled=False), [bytes(1000)] * 10)
    before = broker.stats(topic)
    size = before["storageSize"]
    assert 10_000 < size < 11_500
    assert before["backlogSize"] == size
    for message in receive(busy, 10):
        busy.acknowledge(message)
    busy.close()

    def settled() -> bool:
        subscriptions = broker.stats(topic)["subscriptions"]
        return bool(subscriptions["busy"]["backlogSize"] == 0 and subscriptions["idle"]["backlogSize"] == size)

    eventually(settled)
    after = broker.stats(topic)
    assert (after["storageSize"], after["backlogSize"]) == (size, size)
    without = broker.stats(topic, "subscriptionBacklogSize=false")["subscriptions"]
    assert without["idle"]["backlogSize"] == -1
    idle.close()


def test_clients_are_left_out_when_asked(broker: Broker, client: pulsar.Client) -> None:
    # covers ST-6 (exclude)
    topic = broker.topic(partitions=2)
    client.subscribe(topic, "s")
    client.create_producer(topic)
    for path in (f"{topic_path(topic)}/partitioned-stats", f"{topic_path(topic)}-partition-0/stats"):
        full = broker.rest("GET", path)[1]
        assert full["publishers"]
        assert full["subscriptions"]["s"]["consumers"]
        without = broker.rest("GET", f"{path}?excludePublishers=true&excludeConsumers=true")[1]
        assert (without["publishers"], without["subscriptions"]["s"]["consumers"]) == ([], [])


def test_partitions_are_summed(broker: Broker, client: pulsar.Client) -> None:
    # covers ST-5, ST-6
    topic = broker.topic(partitions=3)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution, batching_enabled=False
    )
    send_all(producer, ["x"] * 9)
    path = f"{topic_path(topic)}/partitioned-stats"
    stats = broker.rest("GET", f"{path}?getPreciseBacklog=true")[1]
    assert stats["metadata"] == {"partitions": 3, "deleted": False}
    assert stats["msgInCounter"] == 9
    assert stats["subscriptions"]["s"]["msgBacklog"] == 9
    assert len(stats["subscriptions"]["s"]["consumers"]) == len(stats["publishers"]) == 1, "not one for each partition"
    assert sorted(stats["partitions"]) == [f"{topic}-partition-{index}" for index in range(3)]
    assert sum(each["storageSize"] for each in stats["partitions"].values()) == stats["storageSize"] > 0
    assert broker.rest("GET", f"{path}?perPartition=false")[1]["partitions"] == {}
    consumer.close()


def test_clients_of_several_partitions_are_summed_by_their_names(broker: Broker, client: pulsar.Client) -> None:
    # covers ST-5: better on purpose, Apache Pulsar takes those that came first at each partition for one
    topic = broker.topic(partitions=2)

    def join(partition: int, name: str, permits: int) -> None:
        client.subscribe(
            f"{topic}-partition-{partition}",
            "s",
            consumer_type=pulsar.ConsumerType.Shared,
            consumer_name=name,
            receiver_queue_size=permits,
        )

    for partition, name, permits in ((0, "a", 10), (0, "b", 1000), (1, "b", 1000), (1, "a", 10)):
        join(partition, name, permits)
    path = f"{topic_path(topic)}/partitioned-stats"

    def permits() -> list[int]:
        consumers = broker.rest("GET", path)[1]["subscriptions"]["s"]["consumers"]
        return sorted(each["availablePermits"] for each in consumers)

    assert eventually(lambda: permits() == ([20, 2000] if broker.kind == "ours" else [1010, 1010]))


def test_ledgers_and_cursors(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers ST-8
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    sent = send_all(client.create_producer(topic, batching_enabled=False), [str(index) for index in range(10)])
    received = receive(consumer, 10)
    for message in (received[0], received[3], received[4], received[7]):
        consumer.acknowledge(message)
    ledger = sent[0].ledger_id()

    def shown() -> bool:
        stats = broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]
        cursor = stats["cursors"]["s"]
        return bool(cursor["individuallyDeletedMessages"] == f"[({ledger}:2..{ledger}:4],({ledger}:6..{ledger}:7]]")

    eventually(shown)
    stats = broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]
    assert (stats["numberOfEntries"], stats["currentLedgerEntries"], stats["state"]) == (10, 10, "LedgerOpened")
    assert stats["totalSize"] == stats["currentLedgerSize"] > 0
    assert stats["lastConfirmedEntry"] == f"{ledger}:9"
    last = stats["ledgers"][-1]
    assert (last["ledgerId"], last["entries"], last["size"], last["offloaded"]) == (ledger, 0, 0, False)
    cursor = stats["cursors"]["s"]
    assert cursor["markDeletePosition"] == f"{ledger}:0"
    assert cursor["totalNonContiguousDeletedMessagesRange"] == 2
    assert cursor["properties"] == {}
    assert broker.rest("GET", f"{topic_path(broker.topic())}/internalStats")[0] == 404


def test_internal_stats_of_partitions(broker: Broker) -> None:
    # covers ST-6
    topic = broker.topic(partitions=2)
    path = topic_path(topic)
    status, stats = broker.rest("GET", f"{path}/partitioned-internalStats")
    assert (status, stats["metadata"]) == (200, {"partitions": 2, "deleted": False})
    assert sorted(stats["partitions"]) == [f"{topic}-partition-{index}" for index in range(2)]
    status, answer = broker.rest("GET", f"{path}/internalStats")
    assert (status, answer["reason"]) == (404, f"Topic {topic} not found")


def test_properties_of_topics(broker: Broker) -> None:
    # covers ADM-68 (properties)
    for partitions in (0, 2):
        topic = broker.topic(partitions=partitions)
        path = topic_path(topic)
        if not partitions:
            assert broker.rest("PUT", path, {"a": "1"}) == (204, "")
            assert broker.rest("GET", f"{path}/properties") == (200, {"a": "1"})
        assert broker.rest("PUT", f"{path}/properties", {"b": "2", "c": "3"}) == (204, "")
        assert broker.rest("DELETE", f"{path}/properties?key=c") == (204, "")
        assert broker.rest("DELETE", f"{path}/properties?key=none") == (204, "")
        properties = broker.rest("GET", f"{path}/properties")[1]
        assert properties == ({"b": "2"} if partitions else {"a": "1", "b": "2"})


@pytest.mark.parametrize("of", ["topic", "partitions", "namespace"])
def test_clients_come_back_after_an_unload_and_go_on_in_a_ledger_of_its_own(
    broker: Broker, client: pulsar.Client, of: str
) -> None:
    # covers ML-1, ADM-64, ADM-68 (unload)
    namespace = broker.namespace()
    base = f"persistent://{namespace}/t"
    partitioned = of == "partitions"
    if partitioned:
        assert broker.rest("PUT", f"{topic_path(base)}/partitions", 1)[0] == 204
    topic = f"{base}-partition-0" if partitioned else base
    client.subscribe(topic, "keep", initial_position=pulsar.InitialPosition.Earliest).close()
    consumer, producer = client.subscribe(topic, "s"), client.create_producer(topic)
    unload = f"/admin/v2/namespaces/{namespace}/unload" if of == "namespace" else f"{topic_path(base)}/unload"
    ids = send_all(producer, ["0", "1", "2"])
    assert broker.rest("PUT", unload) == (204, "")
    ids += send_all(producer, ["3"])
    assert broker.rest("PUT", unload) == (204, "")
    assert broker.rest("PUT", unload) == (204, "")
    ids += send_all(producer, ["4"])
    first, second, third = (ids[index].ledger_id() for index in (0, 3, 4))
    assert first < second < third
    assert [(each.ledger_id(), each.entry_id()) for each in ids] == [
        *((first, entry_id) for entry_id in range(3)),
        (second, 0),
        (third, 0),
    ]
    stats = broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]
    assert [(each["ledgerId"], each["entries"]) for each in stats["ledgers"]] == [(first, 3), (second, 1), (third, 0)]
    # Ids from before are as good as ever.
    reader = client.create_reader(topic, ids[1], start_message_id_inclusive=True)
    assert receive_texts(reader, 4) == ["1", "2", "3", "4"]
    assert receive_up_to(consumer, "4")[0] == "0"
    status, answer = broker.rest("PUT", f"{topic_path(broker.topic())}/unload")
    assert (status, "not found" in answer["reason"]) == (404, True)


def test_the_oldest_of_each_backlog_when_asked(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers ST-6 (getEarliestTimeInBacklog)
    earliest = pulsar.InitialPosition.Earliest
    consumer = client.subscribe(topic, "ahead", initial_position=earliest)
    client.subscribe(topic, "behind", initial_position=earliest).close()
    producer = client.create_producer(topic, batching_enabled=False)

    def shown(query: str = "getEarliestTimeInBacklog=true") -> tuple[object, dict[str, object]]:
        stats = broker.stats(topic, query)
        subscriptions = stats["subscriptions"]
        times = {name: each["earliestMsgPublishTimeInBacklog"] for name, each in subscriptions.items()}
        return stats["earliestMsgPublishTimeInBacklogs"], times

    assert shown() == (0, {"ahead": -1, "behind": -1})
    send_all(producer, ["0", "1", "2"])
    messages = receive(consumer, 3)
    first, second, _ = (message.publish_timestamp() for message in messages)
    consumer.acknowledge(messages[0])
    eventually(lambda: shown() == (first, {"ahead": second, "behind": first}))
    assert shown("getEarliestTimeInBacklog=false") == (0, {"ahead": 0, "behind": 0})
    consumer.acknowledge_cumulative(messages[2])
    eventually(lambda: shown() == (first, {"ahead": -1, "behind": first}))


def test_the_oldest_of_the_backlogs_of_all_partitions(broker: Broker) -> None:
    # covers ST-6 (getEarliestTimeInBacklog)
    topic, client = broker.topic(partitions=2), broker.client()
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    for index in (1, 0):
        send_all(client.create_producer(f"{topic}-partition-{index}"), ["x"])
    times = sorted(message.publish_timestamp() for message in receive(consumer, 2))
    status, stats = broker.rest("GET", f"{topic_path(topic)}/partitioned-stats?getEarliestTimeInBacklog=true")
    assert status == 200
    assert stats["earliestMsgPublishTimeInBacklogs"] == times[0]
    assert stats["subscriptions"]["s"]["earliestMsgPublishTimeInBacklog"] == times[0]
    parts = stats["partitions"].values()
    assert sorted(each["subscriptions"]["s"]["earliestMsgPublishTimeInBacklog"] for each in parts) == times


def test_quota_and_its_use_are_statistics_and_metrics(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers BQ-10, ADM-9
    client.subscribe(topic, "s").close()
    limits = ("backlogQuotaLimitSize", "backlogQuotaLimitTime")
    assert [broker.stats(topic)[name] for name in limits] == [-1, -1]
    quota = {"limitSize": 1 << 30, "limitTime": 3600, "policy": "producer_request_hold"}
    producer = client.create_producer(topic, batching_enabled=False)
    for kind in ("destination_storage", "message_age"):
        path = f"{topic_path(topic)}/backlogQuota?backlogQuotaType={kind}"
        assert broker.rest("POST", path, quota)[0] == 204
    send_all(producer, [bytes(1000)])

    def metrics() -> dict[str, float]:
        with urllib.request.urlopen(f"{broker.admin_url}/metrics", timeout=60) as answer:
            lines = [line for line in answer.read().decode().splitlines() if f'topic="{topic}"' in line]
        return {line.partition("{")[0]: float(line.rpartition("} ")[2].split()[0]) for line in lines}

    def shown() -> bool:
        found = metrics()
        return (
            found.get("pulsar_storage_backlog_quota_limit") == 1 << 30
            and found.get("pulsar_storage_backlog_quota_limit_time") == 3600
            and 1000 < found.get("pulsar_storage_backlog_size", 0) < 1200
            and found.get("pulsar_storage_size", 0) > 0
        )

    eventually(shown, timeout_s=60)
    assert [broker.stats(topic)[name] for name in limits] == [1 << 30, 3600]
