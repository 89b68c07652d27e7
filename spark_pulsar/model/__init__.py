"""Values of Pulsar that every other package speaks in; no behaviour beyond their own algebra, no I/O, only the stdlib.

Theory of operation. A *position* `(ledger, entry)` names what one SEND stored (`positions.ids.Position`); a *message
id* adds the partition and the index inside a batch (`positions.ids.MessageId`). Positions are totally ordered within
one topic partition and never reused, so every question about progress ("is this acked?", "what is next?", "how much is
left?") is arithmetic on them. The entries acked above the mark-delete position are a `positions.ranges.RangeSet`: per
ledger a sorted list of disjoint half-open intervals, because acknowledgements arrive nearly in order and so merge into
few intervals.

`names.TopicName` is the one door through which a topic name enters: it is either well-formed in full, or refused.
`errors` is one table: each error class knows its wire code, its HTTP status, whether repeating the request may help,
and how much it takes down (the request, the session, the topic). Inner code raises; the edges read the table.
`limits` holds every bound in the system, so that a reviewer can see at a glance that everything has one. `column_store`
keeps the counters of many objects side by side; only readers of columns load NumPy with it.
"""
