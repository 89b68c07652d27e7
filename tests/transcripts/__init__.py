"""Frames recorded from Apache Pulsar 4.0.8, replayed against the broker under test.

The recordings and the rules of comparison are in `../shared/reference/transcripts/`; `replay.py` applies the rules,
`test_replay.py` lists the files, what happens beside the connections, and what our broker does not offer yet.
"""
