"""Attacks on a running broker: mutated frames and REST calls, beside a canary that must notice none of it."""
