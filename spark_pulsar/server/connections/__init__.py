"""Connections of clients: listening, admission, TLS, memory, and their parts of a turn."""
