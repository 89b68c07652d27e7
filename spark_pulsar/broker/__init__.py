"""The broker as a deterministic state machine.

`broker.Broker.handle(events, now_ms) -> effects` is the only door. Events are past facts (a command arrived, records
are on disk, entries were read, a socket is full), effects are orders (send this, append these records, read those
entries, close, pause). There is no clock, socket, file, thread or randomness in here: the same events at the same times
give the same effects.

Three tiers. Data holders: `Session`, `Topic`, `Producer`, `Subscription`, `Consumer`, beside the durable state of
`ledger`. Rules: one module per concern, whose handlers are named after what happened (`on_subscribe`, `on_sends`).
Shared ground: `core.Core`, which gathers records into the turn's group, remembers what is due when the group is on
disk, keeps timers, reads and the subscriptions that are to send.

Cheap by runs. Consecutive SENDs of a producer are one event, one record, one write of receipts, and interleaved SENDs
of many producers are too (`ColumnarSends`), which change the counters of their topics and producers by column; a
consumer gets ranges of runs; acks come and are kept as ranges. Nothing costs an object per entry, and no batch is
opened on its way through.

What a topic's policies say is asked where it counts (`core.policies_of`): its own over its namespace's over the
configuration's, one cached value for all topics that agree. Rooms that must act on a change by themselves watch it.

Memory runs ahead of the disk: a record is applied when it is made. What others may see of it waits: receipts, answers
and deliveries go out when the group is durable, so nobody ever hears of what a crash could take back. Acks without a
receipt are written with the next group, after at most 100 ms.
"""
