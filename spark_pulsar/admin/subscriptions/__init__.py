"""Subscriptions over REST: cursors, backlogs, stored ledgers, replication."""
