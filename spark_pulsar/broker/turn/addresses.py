"""Addresses of a broker: its ports, as the shell has opened them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports of a broker; None: closed."""

    binary: int | None = 6650
    http: int | None = 8080
    binary_tls: int | None = None
    http_tls: int | None = None
