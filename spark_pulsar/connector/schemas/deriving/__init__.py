"""Derived schemas: a DataFrame's schema becomes that of a topic, and is agreed with the one that the topic has."""
