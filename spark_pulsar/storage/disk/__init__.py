"""The disk: file calls with failpoints, direct I/O, threads, free space, directory layout."""
