"""Settling: entries still needed move from journal segments to ledger files."""
