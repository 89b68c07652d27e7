"""Dispatch: sends the entries of a subscription to its consumers.

A dispatcher belongs to one subscription while consumers are connected. It sends at the end of a turn in which anything
happened to the subscription: entries became durable, permits or acks came, a read returned, a socket drained. It sends
ranges of runs, never single entries, and stops when permits, the turn's bytes, entries, or entries in memory run out;
in the last case it has ordered a read and is woken by it.
"""
