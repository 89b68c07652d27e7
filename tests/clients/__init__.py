"""Apache's own tools against the broker: what needs Maven beside Java and Python. `make test-clients` runs it."""
