"""Effectively once: names, numbers and proofs by which a broker that de-duplicates stores each row one time (ONCE-1).

A task writes under a producer name that is the same in every attempt, and gives its rows ids that are the same in every
attempt. The broker returns that producer's last sequence id; what lies before is not written again.
"""
