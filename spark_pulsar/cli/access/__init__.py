"""Addresses, credentials and TLS of commands: from options, profiles, the environment and `client.conf`."""
