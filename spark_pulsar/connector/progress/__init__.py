"""Progress of a streaming query: its lag, and lines that explain it."""
