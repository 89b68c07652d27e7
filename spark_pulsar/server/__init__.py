"""The shell around the core: a process with sockets, a disk and a clock, and no rule of Pulsar.

`runner` opens the storage, listens, prints the ready line, and restarts the core from disk when the journal fails or
the core contradicts itself. `engine` gathers the events of one turn of the loop, hands them to the core and carries out
its effects; the bytes for one connection leave as one write a turn. `connection` turns bytes into events.
The journal's thread and the reading threads report back through the loop.
"""
