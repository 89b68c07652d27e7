"""Writing in a task: rows routed to the partitions of their topics, in batches, as entries."""
