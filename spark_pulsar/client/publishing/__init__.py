"""Publishing to topic partitions."""
