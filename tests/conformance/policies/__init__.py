"""Policies of namespaces and topics, over REST and as clients see them."""
