"""The storage promise of `spark_pulsar.ledger.storage`, kept with files (`files`).

**Writing.** `journal` turns submits into groups: one checksummed block, one durable write, by one thread, while the
next group gathers. Groups fill preallocated segments (`segments`, bytes in `groups`). An index in memory (`run_index`)
knows the places of entries in the segments in use, `reader` reads them back.

**Settling.** When a segment is full, the entries still needed are copied to the files of their ledgers (`settling`,
`ledgers`) by a background thread, those are synced, one SQLite transaction (`checkpoint`) stores what changed in
the state together with the extents of the ledger files and the number of the last group, and the segments before are
recycled. What consumers finished meanwhile is never written twice. Nothing counts before that transaction names it, so
a crash leaves either the segments or the files as the truth, never half of each. The transaction is done a second time
in a copy (`checkpoint.copy`), before segments are recycled: damage of one of the two databases loses nothing. Writers
that are faster than settling wait for it (`back_pressure`).

**Opening.** `journal.walk` finds the groups of the journal, `recovery.replay` applies those after the checkpoint as the
broker applied them, `recovery.take_over` takes the files over. A torn last group is cut. The last whole group is
written again to a segment of its own, because it may never have been synced. Of a damaged group every entry that passes
its own checksum is kept (`salvage`), records that do not fit after a hole show which ones are missing
(`ledger.state.lossy_replay`), and the topics concerned are marked with exactly what they lost (`ledger.state.damage`):
they are read-only until `repair` accepts it. `check` verifies all of it offline and explains.

**A disk that fails.** Without space, or permission, for the next segment the journal waits and notifies the shell
(`segment_upkeep`), early enough that acks, trims and checkpoints still have room. A failed write or sync of a group
fails the storage: the shell opens it again, which starts a fresh file. So does a commit of which it is unknown whether
it happened.

Threads: the shell's loop calls everything but `read`; the journal thread writes groups and calls back; the background
thread settles, prepares and recycles segments. They share the run index and the extents, under one lock that no
thread holds while waiting for the disk. All disk access that durability rests on goes through `disk`.
"""
