"""Effectively once: names, numbers and proofs by which a broker that de-duplicates stores each row one time.

A task writes under a producer name that is the same in every attempt, and gives its rows ids that are the same in every
attempt. The broker tells how far that producer has come; what lies before is not written again.
"""
