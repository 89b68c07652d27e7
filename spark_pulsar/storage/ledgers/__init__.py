"""Ledger files: format, writing, entries lost to damage."""
