"""Measurements of a broker by the official client, as pulsar-perf makes them."""
