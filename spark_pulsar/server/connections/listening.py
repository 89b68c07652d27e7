"""Listening: the ports of a broker, with and without TLS, on IPv4 and IPv6 (SEC-48: `server.sockets`), and the two
lines that name them."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

from spark_pulsar.broker.configuration.addresses import Ports
from spark_pulsar.server.sockets import is_loopback, listen, port_of, url_host

if TYPE_CHECKING:
    import socket

    from spark_pulsar.server.configuration.server_config import ServerConfig

_LOG = logging.getLogger("spark_pulsar.server")


class Listening:
    """The listening sockets of a broker. Raises OSError when one cannot be opened, or when a protocol has none."""

    def __init__(self, config: ServerConfig) -> None:
        for name, plain, tls in (
            ("brokerServicePort", config.port, config.tls_port),
            ("webServicePort", config.http_port, config.tls_http_port),
        ):
            if plain is None and tls is None:
                raise OSError(f"neither {name} nor {name}Tls is set; the broker needs one of them")
        self._config = config
        self._sockets: list[list[socket.socket]] = []
        self.binary = self._listen(config.port)
        self.http = self._listen(config.http_port)
        self.binary_tls = self._listen(config.tls_port)
        self.http_tls = self._listen(config.tls_http_port)
        self.ports = Ports(*(port_of(sockets) if sockets else None for sockets in self._sockets))

    def _listen(self, port: int | None) -> list[socket.socket]:
        try:
            self._sockets.append([] if port is None else listen(self._config.bind_address, port))
        except OSError:
            self.close()
            raise
        return self._sockets[-1]

    def ready_line(self) -> str:
        """Writes the line that names the URLs of a broker that serves, those without TLS first."""
        schemes = ("pulsar", "http", "pulsar+ssl", "https")
        host, ports = url_host(self._config.bind_address), self.ports
        numbers = (ports.binary, ports.http, ports.binary_tls, ports.http_tls)
        urls = [f"{scheme}://{host}:{port}" for scheme, port in zip(schemes, numbers, strict=True) if port]
        return " ".join(["ready", *urls])

    def warn(self) -> None:
        """Logs what anyone can do who reaches a broker without authentication, if others than this machine can
        (SEC-40)."""
        address = self._config.bind_address
        if not is_loopback(address) and not self._config.broker.authentication_enabled:
            _LOG.warning(
                "LISTENING ON %s WITHOUT AUTHENTICATION: anyone who reaches the ports %s of this machine can read, "
                "write and delete every topic, and change every policy. Set bindAddress=127.0.0.1 to close them, or "
                "authenticationEnabled=true with authenticationProviders to let in only those with credentials",
                address or "0.0.0.0",
                ", ".join(str(port) for port in dataclasses.astuple(self.ports) if port),
            )

    def close(self) -> None:
        """Closes the sockets."""
        for sockets in self._sockets:
            for sock in sockets:
                sock.close()
