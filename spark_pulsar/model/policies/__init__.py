"""Policies: their table, values in effect, stored documents, resource groups, permissions."""
