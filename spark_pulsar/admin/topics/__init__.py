"""Topics over REST: life, partitions, statistics, single messages."""
