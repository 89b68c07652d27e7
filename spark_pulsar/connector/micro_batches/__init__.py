"""Micro-batches of a streaming query: their ends, small ones, polling and held-back triggers."""
