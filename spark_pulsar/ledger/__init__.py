"""Managed ledgers and cursors as state, the records that change them, and the storage promise as an interface.

Everything durable is in one `DurableState`. It changes through `state.apply` alone, which is the same for a record just
created by the broker and for one read back from the journal, so that recovery runs no code of its own. Records
(`records`) are past facts that carry their ids and times; entries travel in runs, or by column (`entries`): one buffer
with arrays of offsets, never an object per entry.

In `state` a noun has a file (topics, ledgers, transactions, delays ...), or a folder (cursors): its state, its records,
their effect, and its rows. `state.apply` joins the records of all nouns, `state.snapshot` the rows: what changed
becomes rows for the checkpoint, and rows become a state. `managed_ledgers` answers questions about a topic's chain of
ledgers (positions, counts, sizes, rolling, trimming). The counters of open ledgers stand side by side, so that entries
of a thousand topics are appended by column (`state.columns`). `cache` keeps the newest runs for tailing consumers.
`storage` says what a storage must keep; `spark_pulsar.storage` does.

No module here reads a clock, a file or a random number, or starts a thread.
"""
