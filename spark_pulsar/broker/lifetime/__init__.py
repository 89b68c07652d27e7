"""How long entries stay deliverable: TTL, expiry by time, delayed delivery, compaction."""
