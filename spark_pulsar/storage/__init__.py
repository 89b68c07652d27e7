"""The storage promise of `spark_pulsar.ledger.storage`, kept with files (`files`) and in memory (`memory`).

**Writing.** `journal` turns what was submitted into groups: one checksummed block, one durable write, by one thread,
while the next group gathers. Groups fill preallocated segments (`segments`, bytes in `groups`). An index in memory
(`run_index`) knows where entries stand in live segments, `journal_reader` reads them back.

**Settling.** When a segment is full, the entries still needed are copied to the files of their ledgers (`settle`,
`ledger_files`) by a background thread, those are synced, one SQLite transaction (`checkpoint`) stores what changed in
the state together with the extents of the ledger files and the number of the last group, and the segments before are
recycled. What consumers finished meanwhile is never written twice. Nothing counts before that transaction names it, so
a crash leaves either the segments or the files as the truth, never half of each.

**Opening.** `recovery` loads the checkpoint and replays the groups after it through `DurableState.apply`. A torn last
group is cut, any other damage is refused with file and offset. `check` verifies all of it offline and explains.

Threads: the shell's loop calls everything but `read`; the journal thread writes groups and calls back; the background
thread settles, prepares and recycles segments. They share the run index and the extents, under one lock that nobody
holds while waiting for the disk. All disk access that durability rests on goes through `disk`.
"""
