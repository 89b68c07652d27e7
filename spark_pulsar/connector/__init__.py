"""The Spark side: `format("pulsar")` for reading and writing, in pure Python on Spark's Python Data Source API.

Theory of operation. A read takes four steps, each a folder or two:

1. `options` turns the strings of `.option(...)` into one checked value; `columns` knows the columns there are.
2. `positions` says what a position means: the *next* message to read, exact inside a batch, ends exclusive. `offsets`
   holds the start and the end of a read in every partition: the offset in a checkpoint, words and times and a
   subscription's cursor resolved. `planning` turns two offsets into ranges, one for each task, cuts a range for several
   tasks, and leaves out partitions that cannot hold a key that is wanted. `read_limits` decides how far a limited
   micro-batch goes, by messages that are counted ahead. What they decide is decided by pure functions.
3. `micro_batches` plans the offsets of a streaming query, call by call of Spark, and moves the cursor of a named
   subscription; `progress` reports the unread messages. A batch read is planned once (`planning/batch_read`).
4. `reading` runs in a task: entries of one range come from the wire client in blocks, the columnar kernels turn a block
   into an Arrow record batch, and Spark takes it as it is. No Python object exists for a message.

`planning.data_loss` decides whether a read may have a hole.

`writing` takes Arrow record batches: it chooses the partition of each row as the official clients do, encodes whole
batches with kernels, and waits for every receipt from the client's publishers. `effectively_once` names rows, so that
an attempt of a task leaves out those that an earlier one has written. `schemas` decodes and encodes by the schema of
the topic; `letters` turns rows into retry letters and dead letters, and back.

`source` holds Spark's classes and nothing else; `discovery` is the module Spark finds by itself as `pyspark_pulsar`.

Which process runs what matters: the reader that plans offsets lives in one process for the life of a query, the one
that reads is unpickled in every task, so nothing but the input partition passes from the first to the second.
"""
