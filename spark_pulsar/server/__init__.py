"""The shell around the core: a process with sockets, a disk and a clock, and no rule of Pulsar.

`runner` opens the storage, listens, prints the ready line, and restarts the core from disk when the journal fails or
the core contradicts itself. `engine` gathers what happened in one turn of the loop, hands it to the core and carries
out what it orders; all that one connection is sent in a turn leaves as one write. `session` turns bytes into events.
The journal's thread and the reading threads report back through the loop.
"""
