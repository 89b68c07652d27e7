"""Offsets of a query: the start and the end of a read in every topic partition."""
