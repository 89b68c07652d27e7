"""The durable state, by noun: its form in memory, its records, their effect, and its rows in the checkpoint.

A noun's file ends with its `TRANSITIONS`, which `apply` joins, and its `TABLES`, which `snapshot` joins.
"""
