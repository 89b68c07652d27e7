"""Addresses of sockets as Pulsar writes them."""

from __future__ import annotations

from typing import Any

_MAPPED = "::ffff:"
"""How an IPv4 address looks on a socket that serves both."""


def local_text(address: Any) -> str:
    """`host:port` that a client connected to; IPv6 in brackets."""
    host, port = _host(address[0]), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def peer_text(address: Any) -> str:
    """`/host:port` of a client, as in stats."""
    return "/" + local_text(address) if address else "/unknown:0"


def _host(text: str) -> str:
    return text[len(_MAPPED) :] if text.lower().startswith(_MAPPED) and "." in text else text
