"""Schemas of topics on Spark's side: definitions as the registry has them, and the columns that they mean.

`definition` and `linked_definition` stand below all, then what compares definitions: `united_definition` those of
several topics, `lookup`, `extended_definition` that of a topic by rows. Then come `types`, `evolution`, `payloads`
and `decoding` for reading, `encoding` and `deriving` for writing.
"""
