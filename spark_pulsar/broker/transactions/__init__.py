"""Transactions: the coordinator, entries that become visible together, and acks that wait for the end (section 15)."""
