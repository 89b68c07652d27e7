"""Limits of dispatch: dispatch rates, subscribe rates, unacknowledged messages."""
