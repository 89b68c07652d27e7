"""Namespaces over REST: life, bundles, permissions."""
