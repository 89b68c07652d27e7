"""Commands of a broker's configuration: of its file, and of a running broker."""
