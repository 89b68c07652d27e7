"""Managed ledgers: the chain of ledgers that holds a topic's entries, sizes inside it, rolling and trimming."""
