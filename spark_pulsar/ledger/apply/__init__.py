"""Effects of the records on the durable state."""
