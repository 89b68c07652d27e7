"""Apache's own tools and clients against the broker: what needs Maven and Go beside Python. `make test-clients` runs it."""
