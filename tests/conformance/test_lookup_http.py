"""Lookups over HTTP: clients whose service URL is the address of the admin API."""

from __future__ import annotations

import subprocess
import sys
import urllib.parse
from contextlib import closing

import pulsar
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.errors import WrongPort
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import receive_texts, send_all
from tests.raw import RawConnection


def _path(topic: str) -> str:
    return f"/lookup/v2/topic/{topic.replace('://', '/', 1)}"


@pytest.mark.parametrize("partitions", [0, 2])
def test_a_lookup_answers_where_the_broker_is(broker: Broker, partitions: int) -> None:
    # covers TN-7, ADM-70
    topic = broker.topic(partitions=partitions)
    status, found = broker.rest("GET", _path(topic))
    assert status == 200
    assert found["brokerUrl"] == found["nativeUrl"] == broker.service_url
    assert urllib.parse.urlsplit(found["httpUrl"]).port == urllib.parse.urlsplit(broker.admin_url).port
    assert found["brokerUrlSsl"] == ""
    assert broker.rest("GET", f"{_path(topic)}/bundle")[0] == 200
    assert topic not in broker.rest("GET", "/admin/v2/persistent/public/default")[1], "nothing is created"


def test_what_cannot_be_there_is_not_found(broker: Broker) -> None:
    # covers ADM-70
    assert broker.rest("GET", _path("persistent://public/no-such-ns/t")) == (404, {"reason": "Namespace not found"})
    namespace = broker.namespace()
    closed = f"/admin/v2/namespaces/{namespace}/autoTopicCreation"
    assert broker.rest("POST", closed, {"allowAutoTopicCreation": False})[0] == 204
    topic = f"persistent://{namespace}/t"
    status, answer = broker.rest("GET", _path(topic))
    assert (status, answer["reason"]) == (404, f"Topic not found {topic}")


@pytest.mark.parametrize("may_create", [False, True])
def test_both_ways_answer_the_same_number_of_partitions(broker: Broker, raw: RawConnection, may_create: bool) -> None:
    # covers TN-7, TX-2
    namespace = broker.namespace()
    partitioned = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 3}
    names = ["plain", "orders", "orders-s-DLQ", "orders-s-RETRY", "orders-dlq", "DLQ", "orders-partition-1"]
    broker.client().create_producer(f"persistent://{namespace}/plain").close()
    assert broker.rest("POST", f"/admin/v2/namespaces/{namespace}/autoTopicCreation", partitioned)[0] == 204
    by_frame: dict[str, int | None] = {}
    by_path: dict[str, int | None] = {}
    # Each way comes to half of the names first.
    for index, name in enumerate([*names, *(f"{name}-2" for name in names[1:])]):
        topic = f"persistent://{namespace}/{name}"
        for way in ("frame", "path") if index % 2 else ("path", "frame"):
            if way == "frame":
                found = raw.request("PARTITIONED_METADATA", topic=topic, metadata_auto_creation_enabled=may_create)
                by_frame[name] = found["partitions"] if found["response"] == "Success" else None
            else:
                path = f"{topic_path(topic)}/partitions?checkAllowAutoCreation={str(may_create).lower()}"
                status, answer = broker.rest("GET", path)
                by_path[name] = answer["partitions"] if status == 200 else None
    assert by_frame == by_path
    if may_create:
        assert [by_path[name] for name in names[:6]] == [0, 3, 0, 0, 3, 3]
    else:
        assert set(by_path.values()) == {0, None}


def test_coordinators_are_found_over_http(broker: Broker) -> None:
    # covers TX-2
    topic = "persistent://pulsar/system/transaction_coordinator_assign"
    count = broker.raw().request("PARTITIONED_METADATA", topic=topic)["partitions"]
    for query in ("", "?checkAllowAutoCreation=true", "?checkAllowAutoCreation=false"):
        assert broker.rest("GET", f"{topic_path(topic)}/partitions{query}")[1]["partitions"] == count >= 1


def test_a_topic_is_in_the_bundle_of_its_hash(broker: Broker) -> None:
    # covers ADM-70
    namespace = broker.namespace({"bundles": {"numBundles": 2}})
    edges = broker.rest("GET", f"/admin/v2/namespaces/{namespace}/bundles")[1]["boundaries"]
    bundles = {broker.rest("GET", f"{_path(f'persistent://{namespace}/{number}')}/bundle")[1] for number in range(20)}
    assert bundles == {f"{edges[0]}_{edges[1]}", f"{edges[1]}_{edges[2]}"}


@pytest.mark.parametrize("partitions", [0, 2])
def test_the_official_client_works_by_http_lookups(broker: Broker, partitions: int) -> None:
    # covers ADM-70, ADM-68 (partitions, as clients ask over HTTP)
    topic = broker.topic(partitions=partitions)
    client = pulsar.Client(broker.admin_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        consumer = client.subscribe(topic, "s")
        send_all(client.create_producer(topic), ["0", "1"])
        assert sorted(receive_texts(consumer, 2)) == ["0", "1"]
        assert len(client.get_topic_partitions(topic)) == (partitions or 1)
    finally:
        client.close()


@pytest.mark.timeout(60)
def test_the_admin_port_answers_http(broker: Broker) -> None:
    # covers READ-34
    where = broker.admin_url.partition("://")[2]
    config = ClientConfig(f"pulsar://{where}", operation_timeout_ms=60_000)
    with closing(PulsarClient(config)) as client, pytest.raises(WrongPort) as caught:
        client.topics_of("public/default")
    assert str(caught.value).startswith(f"{where} answers HTTP: this is the port of the admin API; ")
    command = [sys.executable, "-m", "spark_pulsar", "produce", "wrong-port", "-m", "x", "-u", f"pulsar://{where}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert f"{where} answers HTTP" in line
