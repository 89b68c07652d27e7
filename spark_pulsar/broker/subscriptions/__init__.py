"""Commands of consumers: subscribe, acknowledge, redeliver, seek, cursor moves, last message id, consumer stats."""
