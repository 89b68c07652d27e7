"""Principals: the role that a connection or a request has, and the role that a proxy forwards (AU-10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Principal:
    """Role that authentication found; `original` is the role of the client behind a proxy, whose own role is `role`."""

    role: str | None
    """None: authentication is off, and nothing is known."""
    original: str | None = None

    @property
    def client_role(self) -> str | None:
        """Role of the client: behind a proxy the one that the proxy forwards."""
        return self.original or self.role


UNAUTHENTICATED: Final = Principal(None)
"""Principal of connections and requests while authentication is off."""
