"""A web page that publishes and consumes over WebSockets, in a real browser; a page of another host may not."""

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.brokers import Broker, topic_path
from tests.eventually import eventually
from tests.websocket import path_of

from .conftest import Open

_EXCHANGE = """async ([consumerUrl, producerUrl, count]) => {
    const opened = url => new Promise((resolve, reject) => {
        const socket = new WebSocket(url);
        socket.onopen = () => resolve(socket);
        socket.onerror = () => reject(new Error("no WebSocket"));
    });
    const consumer = await opened(consumerUrl);
    const texts = [];
    const all = new Promise(resolve => {
        consumer.onmessage = event => {
            const message = JSON.parse(event.data);
            texts.push(decodeURIComponent(escape(atob(message.payload))));
            consumer.send(JSON.stringify({messageId: message.messageId}));
            if (texts.length === count) resolve();
        };
    });
    const producer = await opened(producerUrl);
    let receipts = 0;
    producer.onmessage = event => { if (JSON.parse(event.data).result === "ok") receipts++; };
    for (let i = 0; i < count; i++) {
        producer.send(JSON.stringify({payload: btoa(unescape(encodeURIComponent(`grüße ${i}`))), context: `${i}`}));
    }
    await all;
    producer.close();
    consumer.close();
    return [texts, receipts];
}"""
_IS_OPENED = """url => new Promise(resolve => {
    const socket = new WebSocket(url);
    socket.onopen = () => resolve(true);
    socket.onerror = () => resolve(false);
})"""


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[int]:
    """The port of another server, with a page."""
    (tmp_path / "index.html").write_text("<!doctype html><title>elsewhere</title>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_page_publishes_and_consumes(page_broker: Broker, browser: Browser, foreign: int) -> None:
    # covers WS-5, WS-8, WS-10, WS-11
    topic = page_broker.topic()
    base = page_broker.admin_url.replace("http", "ws", 1)
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{foreign}/")  # of this machine, as a program under development
    urls = [base + path_of("consumer", topic, "s"), base + path_of("producer", topic)]
    texts, receipts = page.evaluate(_EXCHANGE, [*urls, 50])
    assert texts == [f"grüße {index}" for index in range(50)]
    assert receipts > 0
    stats = f"{topic_path(topic)}/stats"
    eventually(lambda: page_broker.rest("GET", stats)[1]["subscriptions"]["s"]["msgBacklog"] == 0)
    context.close()


def test_the_brokers_own_page_may_open_websockets(page_broker: Broker, visit: Open) -> None:
    # covers WS-8
    page = visit(page_broker)
    url = page_broker.admin_url.replace("http", "ws", 1) + path_of("reader", page_broker.topic())
    assert page.evaluate(_IS_OPENED, url)


def test_a_page_of_another_host_may_not(page_broker: Broker, browser: Browser) -> None:
    # covers WS-8, T-25
    context = browser.new_context()
    context.route("http://elsewhere.example/", lambda route: route.fulfill(body="<!doctype html><title>x</title>"))
    page = context.new_page()
    page.goto("http://elsewhere.example/")
    url = page_broker.admin_url.replace("http", "ws", 1) + path_of("reader", page_broker.topic())
    assert not page.evaluate(_IS_OPENED, url)
    context.close()
