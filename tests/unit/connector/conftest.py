"""The scripted peer of the client's tests, and clients that do not outlive their test."""

from tests.unit.client.conftest import client_of, peer

__all__ = ["client_of", "peer"]
