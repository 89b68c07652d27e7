"""Authentication providers and TLS: keys, certificates and files that the core never sees."""
