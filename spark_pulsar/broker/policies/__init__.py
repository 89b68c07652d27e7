"""Policies of namespaces and topics: stored documents, and what is effective."""
