"""The journal's records: facts with a type, a version and bytes."""
