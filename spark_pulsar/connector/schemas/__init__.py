"""Schemas of topics on Spark's side: definitions as the registry has them, and the columns that they mean.

`definition` and `lookup` stand below all; then come `types`, `payloads` and `decoding` for reading, `encoding` and
`deriving` for writing.
"""
