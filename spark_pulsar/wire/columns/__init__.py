"""Batch payloads ↔ Arrow columns, without a Python object per message.

Reading, from below:

1. ``entries``: stored entries as arrays over one buffer; ``inspect_entries`` reads headers and metadata of all of them
in one kernel call, which is all that counting messages or finding chunks needs. 2. ``rows``: payloads are unpacked,
batches are walked once; the result is a table of *places* (where value, key, metadata of each wanted message begin and
how long they are). Nothing is copied yet. This step has checked every length, so that the following ones copy without a
check. 3. ``arrays``: one function per column gathers bytes to Arrow's layout. A column that is not wanted costs
nothing. 4. ``records`` puts them together: the connector's columns in Spark's exact types, cut to a good size.

Writing: ``hashes`` turns keys into the text that is hashed and sent, chooses partitions and groups rows; ``flat``
takes any string, binary, map or timestamp column apart; ``encode`` sizes all items, cuts batches, and writes them into
one buffer.

The loops are in ``kernels``: plain functions that numba compiles when there is enough to do (about ten seconds once
per installation, half a second from the cache) or that run as they are until then, and where numba is missing. They
never raise: hostile bytes end in a negative code, which becomes ``MalformedBatch`` with the id of the entry.

Importing anything here imports pyarrow. The broker never does.
"""
