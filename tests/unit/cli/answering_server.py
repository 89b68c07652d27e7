"""An HTTP server whose answers are given beforehand, and which remembers what it was asked."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class AnsweringServer(ThreadingHTTPServer):
    """Its `answer` is a status and a body, for all paths but those of `answers`; `sent_headers` go with it."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.answer, self.sent_headers = (200, '["public"]'), dict[str, str]()
        self.answers: dict[str, tuple[int, str]] = {}
        self.asked: list[dict[str, str]] = []
        self.certificates: list[Any] = []
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
            self.url = self.url.replace("http:", "https:")
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the last request."""
        return self.asked[-1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Says nothing of connections that are refused."""
        request.close()

    def close(self) -> None:
        """Ends it."""
        self.shutdown()
        self.server_close()


class Answering(BaseHTTPRequestHandler):
    """One connection."""

    server: AnsweringServer

    def _answer(self) -> None:
        self.server.asked.append(dict(self.headers))
        is_tls = isinstance(self.connection, ssl.SSLSocket)
        self.server.certificates.append(self.connection.getpeercert() if is_tls else None)  # type: ignore[union-attr]
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, text = self.server.answers.get(self.path.partition("?")[0], self.server.answer)
        body = text.encode()
        self.send_response(status)
        for name, value in (self.server.sent_headers | {"Content-Length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = _answer

    def log_message(self, *_: object) -> None:
        """Silent."""
