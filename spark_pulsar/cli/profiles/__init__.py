"""Commands of profiles."""
