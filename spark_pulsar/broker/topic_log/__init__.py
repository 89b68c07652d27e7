"""A topic's managed ledger as the broker uses it: retention, rollover, termination, damage, disk full, backlog
size, entry walk and lookup, time search."""
