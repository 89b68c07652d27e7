"""Lifetime of entries: TTL, expiry by time, delayed delivery, compaction."""
