"""Planning: the topic partitions and ranges that the tasks of one read get."""
