"""Apache's own tools and clients against the broker: what needs Maven and Go beside Python. See `make test-clients`."""
