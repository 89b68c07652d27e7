"""One turn of the broker: events, effects, group commit, timers, reads, waking, counter columns,
token bucket."""
