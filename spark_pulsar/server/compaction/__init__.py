"""Running compactions: reading a topic, writing its compacted ledger."""
