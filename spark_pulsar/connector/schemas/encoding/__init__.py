"""Encoding: rows of a write become payloads, column by column; a module for each kind of payload."""
