"""The REST calls that clients and tools need first: partitions, health, metrics."""

from __future__ import annotations

import urllib.request

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import receive_texts, send_all


def test_create_read_grow_and_delete_partitions(broker: Broker) -> None:
    # covers TN-8, admin-rest 1.4
    topic = broker.topic()
    path = f"{topic_path(topic)}/partitions"
    assert broker.rest("GET", path)[0] == 404
    assert broker.rest("PUT", path, 3) == (204, "")
    status, answer = broker.rest("GET", path)
    assert (status, answer["partitions"]) == (200, 3)
    assert broker.rest("POST", path, 5)[0] == 204
    assert broker.rest("GET", path)[1]["partitions"] == 5
    assert broker.rest("DELETE", path) == (204, "")
    assert broker.rest("GET", path)[0] == 404
    assert broker.rest("DELETE", path)[0] == 404


def test_refusals_carry_a_reason(broker: Broker) -> None:
    # covers TN-8, TN-6, admin-rest 1.4
    topic = broker.topic(partitions=3)
    path = f"{topic_path(topic)}/partitions"
    plain = broker.topic()
    broker.client().create_producer(plain)
    refused = [
        (broker.rest("PUT", path, 3), 409, "This topic already exists"),
        (broker.rest("POST", path, 2), 422, "can't be less than the current partitions 3"),
        (broker.rest("PUT", f"{topic_path(broker.topic())}/partitions", 0), 406, "should be more than 0"),
        (broker.rest("PUT", f"{topic_path(plain)}/partitions", 2), 409, "This topic already exists"),
        (broker.rest("POST", f"{topic_path(plain)}/partitions", 2), 409, "is not the partitioned topic"),
        (broker.rest("PUT", f"{topic_path(topic)}-partition-9/partitions", 2), 412, "should not contain '-partition-'"),
        (broker.rest("GET", "/admin/v2/persistent/public/no-such-ns/t/partitions"), 404, "Namespace not found"),
        (broker.rest("PUT", "/admin/v2/persistent/public/no-such-ns/t/partitions", 2), 404, "Namespace not found"),
    ]
    for (status, answer), expected, reason in refused:
        assert (status, reason in answer["reason"]) == (expected, True), (status, answer, expected, reason)


def test_a_plain_topic_has_no_partitions(broker: Broker) -> None:
    # covers admin-rest 1.4
    topic = broker.topic()
    broker.client().create_producer(topic)
    status, answer = broker.rest("GET", f"{topic_path(topic)}/partitions")
    assert (status, answer["partitions"]) == (200, 0)


def test_a_name_with_any_character(broker: Broker) -> None:
    # covers TN-4
    topic = broker.topic() + " ü%:"
    path = f"{topic_path(topic)}/partitions"
    assert broker.rest("PUT", path, 2)[0] == 204
    client = broker.client()
    assert len(client.get_topic_partitions(topic)) == 2


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/json; charset=utf-8"])
def test_the_count_is_taken_whatever_the_content_type(broker: Broker, content_type: str) -> None:
    # covers admin-rest T-12
    url = f"{broker.admin_url}{topic_path(broker.topic())}/partitions"
    request = urllib.request.Request(url, data=b"4", method="PUT", headers={"Content-Type": content_type})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 204


def test_deleting_needs_force_while_somebody_is_connected(broker: Broker) -> None:
    # covers admin-rest 1.4 (412)
    topic = broker.topic(partitions=2)
    path = f"{topic_path(topic)}/partitions"
    client = broker.client()
    consumer = client.subscribe(topic, "s")
    assert broker.rest("DELETE", path)[0] == 412
    consumer.close()
    assert broker.rest("DELETE", f"{path}?force=true")[0] == 204
    assert broker.rest("GET", path)[0] == 404


def test_a_topic_made_again_starts_anew(broker: Broker) -> None:
    # covers TN-8, A5 (ids are not used twice)
    topic = broker.topic(partitions=1)
    client = broker.client()
    producer = client.create_producer(topic)
    (old,) = send_all(producer, ["old"])
    producer.close()
    assert broker.rest("DELETE", f"{topic_path(topic)}/partitions?force=true")[0] == 204
    assert broker.rest("PUT", f"{topic_path(topic)}/partitions", 1)[0] == 204
    fresh = broker.client()
    (new,) = send_all(fresh.create_producer(topic), ["new"])
    assert new.ledger_id() > old.ledger_id()
    assert receive_texts(fresh.create_reader(topic, pulsar.MessageId.earliest), 1) == ["new"]


def test_health(broker: Broker) -> None:
    # covers admin-rest 1.13
    status, answer = broker.rest("GET", "/admin/v2/brokers/health")
    assert (status, answer) == (200, "ok")


def test_metrics_are_prometheus_text(broker: Broker) -> None:
    # covers admin-rest (metrics)
    with urllib.request.urlopen(f"{broker.admin_url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
        assert answer.headers["Content-Type"].startswith("text/plain")
    assert "# TYPE " in text
    assert "pulsar_" in text


def test_an_unknown_path_is_not_found(broker: Broker) -> None:
    # covers admin-rest (errors)
    assert broker.rest("GET", "/admin/v2/no-such-thing")[0] == 404
