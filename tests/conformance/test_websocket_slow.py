"""A client of a WebSocket that reads nothing: what it leaves fills neither the broker's memory nor its turns."""

from __future__ import annotations

import contextlib
import socket
from urllib.parse import urlsplit

import psutil
import pytest

from tests.brokers import Broker
from tests.websocket import encoded, opened, path_of

_MESSAGES = 1_500
_PAYLOAD = bytes(100_000)


def _upgraded(broker: Broker, path: str) -> socket.socket:
    url = urlsplit(broker.admin_url)
    assert url.hostname is not None
    connection = socket.create_connection((url.hostname, url.port or 80), timeout=20)
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    connection.sendall(head.encode())
    return connection


@pytest.mark.ours_only("WS-9")
def test_readers_that_take_nothing_do_not_fill_the_memory(own_broker: Broker) -> None:
    # covers WS-9, SEC-30
    topic = own_broker.topic()
    producer = own_broker.client().create_producer(topic, batching_enabled=False, max_pending_messages=100)
    assert own_broker.process is not None
    broker = psutil.Process(own_broker.process.pid)
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            connection = _upgraded(own_broker, path_of("reader", topic, messageId="earliest"))
            stack.callback(connection.close)
            assert b" 101 " in connection.recv(200)
        before_bytes = broker.memory_info().rss
        for _ in range(_MESSAGES):  # 150 MB, times ten readers
            producer.send_async(_PAYLOAD, lambda *_: None)
        producer.flush()
        with opened(own_broker, path_of("producer", topic)) as other:
            assert other.call({"payload": encoded("last")})["result"] == "ok"
        assert broker.memory_info().rss - before_bytes < 250_000_000
    with opened(own_broker, path_of("reader", topic, messageId="earliest")) as reader:
        assert len(reader.receive()["payload"]) > 100_000
