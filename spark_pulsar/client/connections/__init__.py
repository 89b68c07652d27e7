"""Connections to brokers: dialing, streams, TLS, requests and their replies, retries."""
