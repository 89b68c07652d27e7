"""Policies of namespaces and topics over REST, resource groups, resource quotas, offloading."""
