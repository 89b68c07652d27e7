"""Data directories as this and earlier versions wrote them, kept in archives, and what is in them. See `making`."""
