"""Brokers and clusters over REST: tenants, isolation, lookup, load report, configuration, disk."""
