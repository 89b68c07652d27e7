"""Copies of topic partitions from one Pulsar to another, entry by entry as they are stored (MOVE-1 ... MOVE-5, MOVE-8).

A partition is read by a reader, and published by one producer, beside which no other may publish. `partition_copy.py`
is the copy of one, which can be killed at any moment; `copier.py` runs many at once within a budget of memory;
`position_map.py` is the file that knows the new position of every entry; `stored_entries.py` makes the SEND of a stored
entry.
"""
