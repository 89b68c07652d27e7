"""Producers publish: opening a producer, storing entries, de-duplication, encryption, publish rates, backlog
quotas, pending publishes."""
