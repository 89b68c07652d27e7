"""Transactions over REST: coordinators, and states of topics and subscriptions."""
