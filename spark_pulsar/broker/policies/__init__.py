"""Policies of namespaces and topics: stored documents, and the values in effect."""
