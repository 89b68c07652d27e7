"""`spark-pulsar tokens`: keys and tokens, as `pulsar tokens` makes them."""
