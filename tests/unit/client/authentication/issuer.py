"""An OAuth 2.0 issuer on loopback, played by the test."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from spark_pulsar.client.authentication.oauth2 import WELL_KNOWN_PATH

CLIENT_ID, CLIENT_SECRET = "spark", "s3cret-oauth2"


class Issuer:
    """Gives `token-1`, `token-2`, … to whoever knows the client's secret, or what `make_token` returns.

    `asked` collects the forms; `status` other than 200 refuses everyone. `documents` are further answers to GET, by
    path; `fetched` collects the paths.
    """

    def __init__(self, certificate: tuple[Path, Path] | None = None) -> None:
        self.asked: list[dict[str, str]] = []
        self.status = 200
        self.lives_s: float | None = 3600
        self.endpoint: str | None = None
        self.make_token = lambda: f"token-{len(self.asked)}"
        self.documents: dict[str, Any] = {}
        self.fetched: list[str] = []
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.fetched.append(self.path)
                if self.path in issuer.documents:
                    self._answer(issuer.status, issuer.documents[self.path])
                    return
                known = self.path == WELL_KNOWN_PATH
                self._answer(200 if known else 404, {"token_endpoint": issuer.endpoint or f"{issuer.url}/token"})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                issuer.asked.append(form)
                if form.get("client_secret") != CLIENT_SECRET or issuer.status != 200:
                    status = issuer.status if issuer.status != 200 else 401
                    said = f"not with {form.get('client_secret')}"
                    self._answer(status, {"error": "invalid_client", "error_description": said})
                    return
                answer: dict[str, Any] = {"access_token": issuer.make_token(), "token_type": "Bearer"}
                if issuer.lives_s is not None:
                    answer["expires_in"] = issuer.lives_s
                self._answer(200, answer)

            def _answer(self, status: int, content: object) -> None:
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def params(self, private_key: str, **more: str) -> str:
        """`authParams` for a key at some URL."""
        return json.dumps({"issuerUrl": self.url, "privateKey": private_key} | more)

    def close(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def key_file(directory: Path, secret: str = CLIENT_SECRET) -> str:
    """The `file:` URL of a new key file."""
    path = directory / "client.json"
    path.write_text(json.dumps({"type": "client_credentials", "client_id": CLIENT_ID, "client_secret": secret}))
    return path.as_uri()
