"""The REST calls that clients and tools need first: partitions, health, metrics."""

from __future__ import annotations

import socket
import urllib.error
import urllib.parse
import urllib.request

import pulsar
import pytest

from tests import changes
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import receive_texts, send_all


def test_create_read_grow_and_delete_partitions(broker: Broker, topic: str) -> None:
    # covers PT-7, TN-8, ADM-68
    path = f"{topic_path(topic)}/partitions"
    assert broker.rest("GET", path)[0] == 404
    assert broker.rest("PUT", path, 3) == (204, "")
    status, answer = broker.rest("GET", path)
    assert (status, answer["partitions"]) == (200, 3)
    assert broker.rest("POST", path, 5)[0] == 204
    assert broker.rest("POST", path, 5)[0] == 204
    assert broker.raw().request("PARTITIONED_METADATA", topic=topic)["partitions"] == 5
    assert broker.rest("GET", path)[1]["partitions"] == 5
    assert broker.rest("DELETE", path) == (204, "")
    assert broker.rest("GET", path)[0] == 404
    assert broker.rest("DELETE", path)[0] == 404


def test_refusals_carry_a_reason(broker: Broker) -> None:
    # covers TN-8, TN-6, ADM-68
    topic = broker.topic(partitions=3)
    path = f"{topic_path(topic)}/partitions"
    plain = broker.topic()
    broker.client().create_producer(plain)
    assert broker.rest("GET", f"{topic_path(plain)}/partitions")[1]["partitions"] == 0
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


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/json; charset=utf-8"])
def test_the_count_is_taken_whatever_the_content_type(broker: Broker, content_type: str) -> None:
    # covers T-12
    url = f"{broker.admin_url}{topic_path(broker.topic())}/partitions"
    request = urllib.request.Request(url, data=b"4", method="PUT", headers={"Content-Type": content_type})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 204


def _http_address(broker: Broker) -> tuple[str, int]:
    url = urllib.parse.urlsplit(broker.admin_url)
    assert url.hostname is not None
    assert url.port is not None
    return url.hostname, url.port


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/xml"}, 415),
        ({"Content-Type": "application/json", "Accept": "text/html"}, 406),
        ({"Content-Type": "application/json", "Accept": "text/html, */*;q=0.8"}, 204),
        ({"Content-Type": "application/json;charset=UTF-8", "Accept": "application/*"}, 204),
    ],
)
def test_media_types(broker: Broker, headers: dict[str, str], status: int) -> None:
    # covers T-12
    namespace = broker.namespace()
    url = f"{broker.admin_url}/admin/v2/namespaces/{namespace}/messageTTL"
    request = urllib.request.Request(url, data=b"100", method="POST", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            found = answer.status
    except urllib.error.HTTPError as error:
        with error:
            found = error.code
    assert found == status


def test_methods_of_a_path_and_one_that_begins_with_two_slashes(broker: Broker) -> None:
    # covers T-12
    with urllib.request.urlopen(
        urllib.request.Request(f"{broker.admin_url}/admin/v2/clusters/standalone", method="OPTIONS"), timeout=60
    ) as answer:
        assert set(answer.headers["Allow"].split(",")) == {"HEAD", "GET", "PUT", "POST", "DELETE", "OPTIONS"}
        assert "Access-Control-Allow-Origin" not in answer.headers
    with socket.create_connection(_http_address(broker), 20) as raw:
        raw.sendall(b"GET //admin/v2/clusters HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert raw.recv(1000).split()[1] == b"404"


def test_paths_of_the_first_version(broker: Broker) -> None:
    # covers T-12
    is_gone = broker.has(changes.NO_FIRST_PATHS)
    for old, new in {"clusters": "clusters", "properties": "tenants", "namespaces/public": "namespaces/public"}.items():
        status, answer = broker.rest("GET", f"/admin/{old}")
        assert status == 404 if is_gone else (status, answer) == broker.rest("GET", f"/admin/v2/{new}")
    assert broker.rest("GET", "/admin/brokers/standalone")[0] == (404 if is_gone else 200)


def test_a_request_with_two_lengths_is_refused(broker: Broker) -> None:
    # covers T-12
    with socket.create_connection(_http_address(broker), 20) as raw:
        raw.sendall(
            b"POST /admin/v2/namespaces/public/default/messageTTL HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        assert raw.recv(1000).split()[1] == b"400"
        assert not raw.recv(1000).startswith(b"HTTP"), "and the connection ends"


def test_deleting_needs_force_while_somebody_is_connected(broker: Broker, client: pulsar.Client) -> None:
    # covers ADM-68 (412)
    topic = broker.topic(partitions=2)
    path = f"{topic_path(topic)}/partitions"
    consumer = client.subscribe(topic, "s")
    assert broker.rest("DELETE", path)[0] == 412
    consumer.close()
    assert broker.rest("DELETE", f"{path}?force=true")[0] == 204
    assert broker.rest("GET", path)[0] == 404


def test_a_topic_made_again_starts_anew(broker: Broker, client: pulsar.Client) -> None:
    # covers TN-8, A5 (ids are not used twice)
    topic = broker.topic(partitions=1)
    producer = client.create_producer(topic)
    (old,) = send_all(producer, ["old"])
    producer.close()
    assert broker.rest("DELETE", f"{topic_path(topic)}/partitions?force=true")[0] == 204
    assert broker.rest("PUT", f"{topic_path(topic)}/partitions", 1)[0] == 204
    fresh = broker.client()
    (new,) = send_all(fresh.create_producer(topic), ["new"])
    assert new.ledger_id() > old.ledger_id()
    assert receive_texts(fresh.create_reader(topic, pulsar.MessageId.earliest), 1) == ["new"]


def test_health_and_what_is_not_there(broker: Broker) -> None:
    # covers ADM-7, T-20
    assert broker.rest("GET", "/admin/v2/no-such-thing")[0] == 404
    status, answer = broker.rest("GET", "/admin/v2/brokers/health")
    assert (status, answer) == (200, "ok")
