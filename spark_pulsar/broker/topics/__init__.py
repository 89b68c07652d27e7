"""The life of topics: creation, deletion, partitions, lookup, non-persistent topics, topic lists, policy changes."""
