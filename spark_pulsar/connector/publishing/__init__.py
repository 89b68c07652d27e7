"""Publishing of a task: rows of one topic on their partitions, in batches, as entries."""
