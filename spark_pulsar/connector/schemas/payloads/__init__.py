"""Payload columns: flat memory, the promise of every decoder, and the types between a decoder and Spark."""
