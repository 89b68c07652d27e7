"""Managed ledgers and cursors as state, the records that change them, and the storage promise as an interface.

Everything durable is in one `DurableState` (`state`). It changes through `apply(state, record)` alone, which is the
same for a record just created by the broker and for one read back from the journal, so that recovery runs no code of
its own. Records (`records`) are past facts that carry their ids and times; entries travel in runs, or by column
(`entries`): one buffer with arrays of offsets, never an object per entry.

`managed_ledger` answers questions about a topic's chain of ledgers (positions, counts, rolling, trimming), `cursor`
about what a subscription has consumed. The counters of open ledgers stand side by side, so that entries of a thousand
topics are appended by column (`apply.columns`). `rows` turn what changed into rows for the checkpoint, and rows into a
state. `cache` keeps the newest runs for tailing consumers. `storage` says what a storage
must keep; `spark_pulsar.storage` does.

No module here reads a clock, a file or a random number, or starts a thread.
"""
