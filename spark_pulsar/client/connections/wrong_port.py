"""Ports that are not the broker's: the admin API's answers HTTP, another one wants TLS, or has none (READ-34).

The client recognises such a port at once, by the first bytes of its answer. Where the port just closes the connection,
the client probes it once more, the other way. A wrong port stays wrong, so that the client does not retry.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from enum import Enum
from typing import Final

from spark_pulsar.client.connections.service_url import Address
from spark_pulsar.client.deadlines import Deadline
from spark_pulsar.client.errors import WrongPort
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.protocol.frames import command_frame

_PROBE_MS: Final = 2_000
_LONGEST_GREETING_BYTES: Final = 1 << 20
_TLS_ALERT: Final = b"\x15\x03"


class Answering(Enum):
    """The protocol that a port answers with."""

    PULSAR = "Pulsar's protocol"
    HTTP = "HTTP"
    TLS = "TLS"
    HTTPS = "HTTPS"


def answering(data: bytes) -> Answering | None:
    """Returns the protocol that the first bytes of an answer to CONNECT show, None if they show none."""
    if data.startswith(b"HTTP/"):
        return Answering.HTTP
    if data.startswith(_TLS_ALERT):
        return Answering.TLS
    size = int.from_bytes(data[:4], "big")
    return Answering.PULSAR if len(data) >= 8 and 4 <= size <= _LONGEST_GREETING_BYTES else None


def wrong_port(where: object, answer: Answering | None, *, uses_tls: bool) -> WrongPort | None:
    """Returns the error for a port that answers with another protocol than the service URL says, None if it fits."""
    if answer in (Answering.HTTP, Answering.HTTPS):
        usual = "6651" if uses_tls or answer is Answering.HTTPS else "6650"
        return WrongPort(
            f"{where} answers {answer.value}: this is the port of the admin API; "
            f"the service URL's port is usually {usual}"
        )
    if answer is Answering.TLS and not uses_tls:
        return WrongPort(f"{where} answers with TLS: its service URL begins with pulsar+ssl://, not pulsar://")
    if answer is Answering.PULSAR and uses_tls:
        return WrongPort(
            f"{where} answers without TLS: its service URL begins with pulsar://; "
            "the port for pulsar+ssl:// is usually 6651"
        )
    return None


def probe_without_tls(address: Address, step: Deadline) -> Answering | None:
    """Probes without TLS a port whose TLS handshake failed."""
    with suppress(OSError), _connected(address, step) as sock:
        sock.sendall(_greeting())
        return answering(sock.recv(64))
    return None


def probe_with_tls(address: Address, step: Deadline) -> Answering | None:
    """Probes with TLS a port that closed a plain connection. Sends no certificate, and trusts none."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with _connected(address, step) as sock, context.wrap_socket(sock, server_hostname=address.host) as secured:
            with suppress(OSError):
                secured.sendall(_greeting())
                if answering(secured.recv(64)) is Answering.HTTP:
                    return Answering.HTTPS
            return Answering.TLS
    except ssl.SSLError as error:
        return Answering.TLS if "ALERT" in (error.reason or "") else None
    except (OSError, ValueError):
        return None


def _connected(address: Address, step: Deadline) -> socket.socket:
    return socket.create_connection(address, timeout=max(1, min(_PROBE_MS, step.left_ms())) / 1000)


def _greeting() -> bytes:
    return command_frame(requests.connect("spark-pulsar", "none", None))
