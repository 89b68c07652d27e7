"""The disk: file calls, direct I/O, threads, directory layout and lock."""
