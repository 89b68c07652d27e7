"""Schemas of topics on Spark's side: definitions as the registry has them, and the columns that they mean."""
