"""The broker as a deterministic state machine.

`broker.Broker.handle(events, now_ms) -> effects` is the only door. Events are past facts (a command arrived, records
are on disk, entries were read, a socket is full), effects are orders (send this, append these records, read those
entries, close, pause). There is no clock, socket, file, thread or randomness in here: the same events at the same times
give the same effects.

docs/architecture.md says which folder answers for what.

Cheap by runs. Consecutive SENDs of a producer are one event, one record, one write of receipts, and interleaved SENDs
of many producers are too (`ColumnarSends`), which change the counters of their topics and producers by column; a
consumer gets ranges of runs; acks come and are kept as ranges. Nothing costs an object per entry, and no batch is
opened on its way through.

Memory runs ahead of the disk: a record is applied when it is made. Receipts, answers and deliveries that rest on it go
out when its group is durable, so no client hears of anything that a crash could take back. Acks without a receipt are
written with the next group, after at most 100 ms.
"""
