"""Power cuts, simulated out of what a real broker wrote and synced."""
