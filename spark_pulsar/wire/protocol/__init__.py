"""Frames and commands, both ways."""
