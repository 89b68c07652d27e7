"""A small blocking client of Pulsar's binary protocol, made for the planner and the executor workers of Spark.

Theory of operation
-------------------
* **A client is its configuration.** `PulsarClient(ClientConfig(...))` opens nothing until it is used, pickles as its
  configuration alone, and notices a fork by the process id: the child starts afresh and leaves the parent's sockets
  alone.
* **One reader thread per connection** (`connections/connection.py`) cuts frames, answers PING, sends PING, wakes
  callers that wait for a reply, and hands MESSAGE and SEND_RECEIPT frames to the consumer or producer they are for. It
  never runs a caller's code and never waits for one: a fetch whose consumer is slow has its own connection, on which
  the thread stops reading (so TCP itself holds the broker back) while it goes on sending PINGs.
* **A stream is plain or TLS** (`connections/streams.py`, opened by `dialing.py`). A client makes its credentials
  (`authentication/`) once in a process. Each connection requests their data anew, and again when the broker says that
  they have expired; a thread of its own answers then, since an issuer may be slow. Secrets are values (`secret.py`)
  that no text shows.
* **Every wait has a deadline** (`deadlines.py`) that knows the operation and its place, so a time-out names them.
  Retries, with back-off (`connections/retry.py`), happen only for lost connections and codes the protocol calls
  transient, never beyond the operation's deadline. A request is a generator (`connections/pipelined_requests.py`), so
  that the same question about a thousand partitions costs a few round trips.
* **Positions are "next to read"**: a `MessageId` whose batch index, when above 0, says that the messages before it in
  that entry are done. `reading/positions.py` has the arithmetic.
* **Reading** (`reading/fetch.py`) is a non-durable reader: it leaves nothing behind on the broker. **Durable cursors**
  (`reading/cursors.py`) are touched by attaching without permits, acknowledging cumulatively and detaching, so that
  nothing is delivered, redelivered or counted. **Publishing** (`publishing/publisher.py`) keeps entries without receipt
  and sends them again, with the same sequence ids, after a reconnect. **Transactions** (`transactions.py`) are ids that
  any process may use.
"""
