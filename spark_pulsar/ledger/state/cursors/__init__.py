"""Cursors: what subscriptions have consumed."""
