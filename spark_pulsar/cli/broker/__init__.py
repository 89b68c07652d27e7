"""Commands about a broker of our own: running it, its configuration, the check of its data directory."""
