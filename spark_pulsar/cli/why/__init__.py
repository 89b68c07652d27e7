"""`spark-pulsar why`: the reason why a consumer receives nothing, or nothing can be published, on any Pulsar."""
