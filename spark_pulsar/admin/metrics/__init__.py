"""Metrics: the table of them, as Prometheus text and as JSON."""
