"""Positions and message ids, and sets of them."""
