"""Support bundle: one file with everything that support needs to know, without secrets."""
