"""The Spark side: `format("pulsar")` for reading and writing, in pure Python on Spark's Python Data Source API.

Theory of operation. A read takes four steps:

1. `options` turns the strings of `.option(...)` into one checked value; `schema` knows the columns.
2. `offsets` says what a position means: the *next* message to read, exact inside a batch, ends exclusive.
   `planning` turns two offsets into ranges, one for each task, `splitting` cuts a range for several tasks, and
   `admission` decides how far a limited micro-batch goes. All are pure functions.
3. `offset_planner` plans the offsets of a query: it asks the broker which topics exist (`topics`) and where they begin
   and end (`endpoints`), has messages counted ahead for a limit (`lookahead`, `gathering`), leaves out
   partitions that cannot hold a key that is wanted (`pruning`), and moves the cursor of a named subscription.
4. `reading` runs in a task: entries of one range come from the wire client in blocks, the columnar kernels turn a block
   into an Arrow record batch, and Spark takes it as it is. No Python object exists for a message.

`data_loss` decides whether a read may have a hole.

A write passes `writing` (Arrow record batches in), `routing` (which partition a row belongs to, equal to the official
clients' choice), the kernels that encode whole batches, and the client's publishers, which wait for every receipt.

`source` holds Spark's classes and nothing else; `discovery` is the module Spark finds by itself as `pyspark_pulsar`.

Which process runs what matters: the reader that plans offsets lives in one process for the life of a query, the one
that reads is unpickled in every task, so nothing but the input partition passes from the first to the second.
"""
