"""Dispatch: sends the entries of a subscription to its consumers.

A dispatcher belongs to one subscription while consumers are connected. It is asked to send whatever it may at the end
of a turn in which something happened to it: entries became durable, permits came, acks came, a read returned, a socket
drained. It sends ranges of runs, never single entries, and stops when permits, the turn's bytes, entries, or what is
in memory run out; in the last case it has ordered a read and is woken by it.
"""
