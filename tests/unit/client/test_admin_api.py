"""Reads of the admin API, from a server that the test plays."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from spark_pulsar.client.admin_api import read_json
from spark_pulsar.client.authentication.plugins import Authentication
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.errors import ConnectFailed, UnexpectedReply
from spark_pulsar.client.secret import Secret
from spark_pulsar.model.errors import AuthorizationError

ANSWERS = {
    "/number": (200, b"7"),
    "/nothing": (204, b""),
    "/text": (200, b"<html>"),
    "/forbidden": (403, b""),
    "/broken": (500, b""),
}


class Server(http.server.ThreadingHTTPServer):
    """Answers as `ANSWERS` says, and keeps what was shown."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.shown: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    """One request."""

    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        self.server.shown.append(self.headers["Authorization"])
        status, body = ANSWERS[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that runs."""
    with Server() as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield one
        one.shutdown()
        thread.join(10)


def test_answers_and_credentials(server: Server) -> None:
    # covers SINK-17
    url = "pulsar://h:6650"
    token = Authentication("token", Secret("t0ken"))
    basic = Authentication("basic", Secret('{"userId": "u", "password": "p"}'))
    for authentication in (Authentication(), token, basic):
        assert read_json(ClientConfig(url, authentication=authentication), f"{server.url}/number") == 7
    assert server.shown == [None, "Bearer t0ken", "Basic dTpw"]
    assert read_json(ClientConfig(url), f"{server.url}/nothing") is None


def test_what_cannot_be_read_is_an_error(server: Server) -> None:
    # covers SINK-17
    config = ClientConfig("pulsar://h:6650")
    for path, error in (("/forbidden", AuthorizationError), ("/broken", UnexpectedReply), ("/text", UnexpectedReply)):
        with pytest.raises(error, match=rf"{server.url}{path} answers"):
            read_json(config, f"{server.url}{path}")
    with pytest.raises(ConnectFailed, match=r"cannot read http://127\.0\.0\.1:1/x"):
        read_json(config, "http://127.0.0.1:1/x")
