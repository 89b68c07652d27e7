"""Requests and answers: calls and their routes, bodies, refusals, names in paths, origins, slices."""
