"""A stopped data directory: check and repair."""
