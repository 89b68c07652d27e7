"""Kernels: plain loops over flat arrays, compiled by numba, that read and write Pulsar's bytes.

Nothing here knows Arrow or raises: a kernel gets arrays and positions, checks every length before it uses it, and
answers with a count or with a negative code of ``layout.REASONS`` and the place. What a position means is fixed by
``layout`` (one table for entries, one for rows); ``compiler`` says when a function becomes machine code,
``machine_code`` how.
"""
