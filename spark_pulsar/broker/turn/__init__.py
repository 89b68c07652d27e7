"""One turn of the broker: events, effects, configuration, group commit, timers, reads, waking, counter columns,
token bucket."""
