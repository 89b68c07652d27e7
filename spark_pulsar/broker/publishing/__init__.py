"""Producers publish: opening a producer, storing entries, de-duplication, encryption, sizes of messages, publish rates,
backlog quotas, pending publishes."""
