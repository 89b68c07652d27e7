"""NumPy, by which columns are changed at once; a broker serves without it, too, entry by entry.

Here alone is decided which way is taken. The ways without NumPy stand beside those with it and give the same state:
their tests run with either (`tests/without_numpy.py`).
"""

from importlib.util import find_spec

HAS_NUMPY = find_spec("numpy") is not None
"""True when NumPy can be imported. The broker finds it without loading it: only columns need it."""
