"""Upkeep by the clock: monitors of topics, idle subscriptions, inactive topics, sampling of rates."""
