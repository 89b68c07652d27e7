"""The configuration: keys, and how `broker.conf` is read."""
