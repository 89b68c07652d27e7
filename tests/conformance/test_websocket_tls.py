"""WebSockets over TLS, the first one of a process among them: their library is loaded when it comes."""

from __future__ import annotations

import ssl
from contextlib import ExitStack

import pytest
from websockets.sync.client import connect

import spark_pulsar
from tests.websocket import PATIENCE_S, WebSocket, encoded, path_of

TOPIC = "persistent://public/default/over-tls"


@pytest.mark.ours_only("Apache Pulsar's own handshakes are not in question")
def test_messages_go_both_ways_over_tls() -> None:
    # covers WS-1, SEC-42
    with spark_pulsar.broker_process(tls=True) as broker, ExitStack() as stack:
        context = ssl.create_default_context(cafile=broker.spark_options["pulsar.client.tlsTrustCertsFilePath"])

        def opened(path: str) -> WebSocket:
            url = broker.admin_url.replace("http", "ws", 1) + path
            connection = connect(url, ssl=context, open_timeout=PATIENCE_S, max_size=None, proxy=None)
            return WebSocket(stack.enter_context(connection))

        producer = opened(path_of("producer", TOPIC))
        consumer = opened(path_of("consumer", TOPIC, "s"))
        payloads = [encoded(b"x" * size) for size in (1, 20_000, 400_000)]
        for payload in payloads:
            assert producer.call({"payload": payload})["result"] == "ok"
        for payload in payloads:
            message = consumer.receive()
            assert message["payload"] == payload
            consumer.send({"messageId": message["messageId"]})
