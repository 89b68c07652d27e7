"""The way into a broker: a port, TLS where it has that, and a token of one of the roles that come."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final
from urllib.parse import urlsplit

from spark_pulsar.testing.process import BrokerProcess
from spark_pulsar.testing.security import ADMIN_ROLE

APP_ROLE: Final = "app"
"""Role that may publish to and consume from the namespaces of the attacks."""
_STRANGER: Final = "stranger"
_BRIEF_S: Final = 2
"""Lifetime of a token after which the broker asks for another, and closes."""
_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Door:
    """One port of a broker."""

    address: tuple[str, int]
    context: ssl.SSLContext | None = None
    """Settings of TLS; None without."""
    tokens: tuple[str, ...] = ()
    """Tokens that attacks bring: mostly good ones. Empty: the broker wants none."""
    admin_token: str = field(default="", repr=False)
    """Token of the super user, empty where none is wanted."""

    def connect(self) -> socket.socket:
        """Opens a connection. OSError where the broker refuses it."""
        made = socket.create_connection(self.address, timeout=_TIMEOUT_S)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made if self.context is None else self.context.wrap_socket(made, server_hostname=self.address[0])

    def token(self, choices: Random) -> str:
        """Draws the token of who comes; empty for nobody."""
        return choices.choice(self.tokens) if self.tokens else ""

    def knock(self, choices: Random) -> None:
        """Brings bytes that are no TLS, or a handshake that ends in the middle."""
        with socket.create_connection(self.address, timeout=_TIMEOUT_S) as made:
            try:
                made.sendall(choices.choice(_KNOCKS)[: choices.randrange(1, 300)])
                if choices.random() < 0.5:
                    made.settimeout(0.05)
                    made.recv(1_000)
            except OSError:
                pass


_KNOCKS: Final = (
    bytes.fromhex("16030100f8010000f40303") + bytes(300),
    b"\x16\x03\x01\xff\xff" + b"\1" * 300,
    b"\x15\x03\x03\0\2\2\x28" * 50,
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\0\0\0\x19\0\0\0\x15" + b"\x08\x02" * 150,
    b"\xff" * 300,
)
"""Beginnings of handshakes, an alert, a request and frames without TLS."""


def doors(broker: BrokerProcess) -> tuple[Door, Door]:
    """Returns the doors of a running broker: that of the binary protocol, and that of the admin API."""
    security, context = broker.security, broker.as_role(ADMIN_ROLE).tls_context()
    tokens: tuple[str, ...] = ()
    admin = ""
    if security.has_tokens:
        admin = security.token(ADMIN_ROLE)
        app, stranger = security.token(APP_ROLE), security.token(_STRANGER)
        brief, broken = security.token(APP_ROLE, _BRIEF_S), f"{app[:-4]}AAAA"
        tokens = (*[admin] * 8, *[app] * 8, *[stranger] * 3, brief, broken, "")
    binary = Door(_address(broker.service_url), context, tokens, admin)
    return binary, replace(binary, address=_address(broker.admin_url))


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0
