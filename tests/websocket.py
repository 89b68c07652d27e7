"""Clients of the WebSocket API for tests: one on a socket, its messages as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.brokers import Broker

PATIENCE_S = 20.0
CLOSING_S = 1.0
"""A client that has not read what it got does not see the other side's close."""


class WebSocket:
    """An open WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def send(self, message: Any) -> None:
        """Sends an object as JSON, a text or bytes as they are."""
        self.connection.send(message if isinstance(message, str | bytes) else json.dumps(message))

    def receive(self, timeout_s: float = PATIENCE_S) -> Any:
        """The next message; TimeoutError when none comes."""
        return json.loads(self.connection.recv(timeout=timeout_s))

    def receive_nothing(self, timeout_s: float = 0.5) -> None:
        """Nothing arrives for so long."""
        with pytest.raises(TimeoutError):
            self.receive(timeout_s)

    def call(self, message: Any) -> Any:
        """Sends a message and returns the next answer."""
        self.send(message)
        return self.receive()

    def closed(self) -> int:
        """Waits for the end and returns the code, 1006 without one."""
        try:
            while True:
                self.connection.recv(timeout=PATIENCE_S)
        except ConnectionClosed as error:
            return 1006 if error.rcvd is None else error.rcvd.code


@contextmanager
def opened(
    broker: Broker, path: str, *, headers: Mapping[str, str] | None = None, base_url: str | None = None
) -> Iterator[WebSocket]:
    """A WebSocket at a path of a broker's HTTP port, or at that of another service."""
    url = (base_url or broker.admin_url).replace("http", "ws", 1) + path
    times = {"open_timeout": PATIENCE_S, "close_timeout": CLOSING_S}
    with connect(url, additional_headers=dict(headers or {}), max_size=None, proxy=None, **times) as at:
        yield WebSocket(at)


def refused(
    broker: Broker, path: str, *, headers: Mapping[str, str] | None = None, base_url: str | None = None
) -> tuple[int, str]:
    """Status and body of a request that gets no WebSocket."""
    with pytest.raises(InvalidStatus) as caught, opened(broker, path, headers=headers, base_url=base_url):
        pass
    response = caught.value.response
    return response.status_code, bytes(response.body or b"").decode()


def path_of(kind: str, topic: str, *rest: str, **query: object) -> str:
    """The path of a WebSocket of a topic: `producer`, `consumer` with a subscription, `reader`."""
    from urllib.parse import quote, urlencode

    path = "/".join([f"/ws/v2/{kind}/{topic.replace('://', '/', 1)}", *(quote(each, safe="") for each in rest)])
    return f"{path}?{urlencode(query)}" if query else path


def encoded(data: bytes | str) -> str:
    """A payload in base64."""
    return base64.b64encode(data if isinstance(data, bytes) else data.encode()).decode()


def decoded(message: Any) -> str:
    """The payload of a message as text."""
    return base64.b64decode(message["payload"]).decode()
