"""Rules of the house that no linter knows: what imports what, how large things get, what must be written down."""
