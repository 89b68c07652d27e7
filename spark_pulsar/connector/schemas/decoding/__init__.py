"""Decoding: messages of a topic become the columns of a read; a module for each kind of payload."""
