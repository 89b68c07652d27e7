"""Connections of clients: handshake and liveness."""
