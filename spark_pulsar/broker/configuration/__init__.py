"""Configuration of the broker: keys of `broker.conf`, dynamic keys, and the addresses that the broker advertises."""
