"""Admission: the end of a limited micro-batch, by messages that are counted ahead."""
