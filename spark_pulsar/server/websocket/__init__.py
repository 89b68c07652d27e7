"""Pulsar's WebSocket API: each WebSocket is a client of the broker on a connection inside the process."""
