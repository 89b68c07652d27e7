"""The checkpoint database, its copy, and opening it read-only."""
