"""Entries: metadata and payload, batches, chunks, compression, blocks of entries."""
