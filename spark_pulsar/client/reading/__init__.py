"""Reading topic partitions: fetches, positions, probes, durable cursors."""
