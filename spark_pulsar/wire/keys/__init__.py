"""Keys: hashes of them, and the sticky keys and hashes of entries."""
