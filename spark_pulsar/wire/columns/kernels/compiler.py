"""Compilation of kernels: by numba, with a cache of the machine code, or none without numba.

A kernel is a plain Python function over flat arrays. With numba it is compiled when its module is imported, for one
fixed signature, so that no call ever pays for compilation; the code comes from a cache directory after the first
time. Without numba (or with ``NUMBA_DISABLE_JIT=1``) the same function runs interpreted over memoryviews, whose items
are Python integers: slow, but the same results.

The cache directory, first that can be used:

1. ``NUMBA_CACHE_DIR``, when set;
2. ``__pycache__`` beside the kernels;
3. the user's cache directory (``$XDG_CACHE_HOME`` or ``~/.cache``);
4. a directory of this user alone below the system's temporary directory.

Below 2 to 4 the code lies in a directory named after a digest of all kernel sources, because numba itself looks at
the calling function's file only and would keep code of a callee that has changed in another file.

A package that Spark brought to an executor goes away with its application: an archive, which has no files for numba to
find, or a directory below the executor's own. There 2 is left out and the kernels' sources are copied beside their
code, so that the next application on that machine compiles nothing.
"""

import functools
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

try:
    import numba
    from numba.core import types
except ImportError:  # pragma: no cover - exercised in a subprocess without numba
    numba = None

COMPILED = numba is not None and not numba.config.DISABLE_JIT
"""True when kernels run as machine code in this process."""


class Bytes(Protocol):
    """A flat array of bytes as a kernel sees it."""

    def __getitem__(self, index: int) -> int: ...
    def __setitem__(self, index: int, value: int) -> None: ...
    def __len__(self) -> int: ...


class Ints(Protocol):
    """A flat array of signed integers as a kernel sees it."""

    def __getitem__(self, index: int) -> int: ...
    def __setitem__(self, index: int, value: int) -> None: ...
    def __len__(self) -> int: ...


class Table(Protocol):
    """A table of 64-bit integers, ``table[field, item]``, each field contiguous."""

    def __getitem__(self, index: tuple[int, int]) -> int: ...
    def __setitem__(self, index: tuple[int, int], value: int) -> None: ...


def _array(item: str, dimensions: int = 1, *, readonly: bool = False) -> Any:
    """Returns the type of a contiguous array argument; None when nothing is compiled."""
    return types.Array(getattr(types, item), dimensions, "C", readonly=readonly) if COMPILED else None


# Argument types of kernels. Arrays that are only read also accept read-only memory, such as Arrow's.
READ_BYTES = _array("uint8", readonly=True)
WRITE_BYTES = _array("uint8")
READ_INTS = _array("int64", readonly=True)
WRITE_INTS = _array("int64")
READ_OFFSETS = _array("int32", readonly=True)
WRITE_OFFSETS = _array("int32")
READ_TABLE = _array("int64", 2, readonly=True)
WRITE_TABLE = _array("int64", 2)
INT: Any = types.int64 if COMPILED else None

Result = TypeVar("Result")

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
if COMPILED and hasattr(numba.core.cpu.CPUTargetOptions, "_nrt"):
    # Kernels make no arrays, and their caller holds those it passes. Counting references at every call between kernel
    # functions, which is what this switches off, takes four fifths of the time of a walk through a batch.
    _OPTIONS["_nrt"] = False


def usable(directory: Path) -> bool:
    """Tells whether compiled code may be kept in ``directory``, which is made: this process can write there, and no
    other user can.

    Loading code from the cache runs it, so a directory that another user could have filled is not used.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=directory):
            pass
        status = directory.stat()
        return status.st_uid == os.getuid() and not status.st_mode & 0o022
    except OSError:
        return False


def _digest() -> str:
    """Names the state of all kernel sources of this package, also inside an archive."""
    digest = hashlib.sha256()
    sources = {each.name: each for each in files(__package__).iterdir() if each.name.endswith(".py")}
    for name in sorted(sources):
        digest.update(name.encode() + b"\0" + sources[name].read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def _brought_by_spark() -> bool:
    """Tells whether this package goes away with the Spark application that brought it."""
    here = Path(__file__).absolute()
    in_executor = "SPARK_EXECUTOR_DIRS" in os.environ or "CONTAINER_ID" in os.environ  # Spark's own, or YARN's
    return not here.exists() or (in_executor and here.is_relative_to(Path.cwd()))


def _settle(function: Callable[..., Any], directory: str) -> None:
    """Makes a copy of the function's source file in a directory named after all sources, and that its file."""
    copy = Path(directory, Path(function.__code__.co_filename).name)
    if not copy.exists():
        with tempfile.NamedTemporaryFile(dir=directory, delete=False) as fresh:
            fresh.write(files(__package__).joinpath(copy.name).read_bytes())
        os.replace(fresh.name, copy)
    function.__code__ = function.__code__.replace(co_filename=str(copy))


@functools.cache
def cache_directory() -> str | None:
    """Returns the directory for compiled kernels, or None: numba's own choice (its environment variable) or no cache at
    all."""
    if not COMPILED or numba.config.CACHE_DIR:
        return None
    below = f"kernels-{_digest()}"
    user_cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    # In a directory shared with others, ours must be ours before anything in it is trusted.
    private = Path(tempfile.gettempdir()) / f"spark-pulsar-{os.getuid()}"
    if not _brought_by_spark() and usable(beside := Path(__file__).parent / "__pycache__" / below):
        return str(beside)
    if os.path.isabs(user_cache) and usable(own := Path(user_cache) / "spark-pulsar" / below):
        return str(own)
    return str(private / below) if usable(private) and usable(private / below) else None


@contextmanager
def _cached_here() -> Iterator[bool]:
    """Points numba at our directory while it decorates one function; yields whether caching is possible."""
    directory = cache_directory()
    if directory is None:
        yield bool(numba.config.CACHE_DIR)
        return
    numba.config.CACHE_DIR = directory
    try:
        yield True
    finally:
        numba.config.CACHE_DIR = ""


def _interpreted(function: Callable[..., Result]) -> Callable[..., Result]:
    """Returns the kernel without numba: arrays become memoryviews, so that items are Python integers that never
    overflow."""

    @functools.wraps(function)
    def run(*arguments: Any) -> Result:
        return function(*(a.data if isinstance(a, np.ndarray) else a for a in arguments))

    return run


def kernel(*argument_types: Any) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Declares an entry point called from Python: compiled now, for exactly these argument types.

    It runs without the interpreter lock and must check every index itself: there are no bounds checks.
    """

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        if not COMPILED:
            return _interpreted(function)
        with _cached_here() as cached:
            if cached and _brought_by_spark():
                directory = Path(numba.config.CACHE_DIR, f"kernels-{_digest()}")
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                _settle(function, str(directory))
            compile_now = numba.njit(argument_types, cache=cached, **_OPTIONS)
            compiled: Callable[..., Result] = compile_now(function)
        return compiled

    return decorate


def inlined(function: Callable[..., Result]) -> Callable[..., Result]:
    """Declares a function that kernels call; it is compiled into them and has no entry point of its own."""
    if not COMPILED:
        return function
    compiled: Callable[..., Result] = numba.njit(forceinline=True, **_OPTIONS)(function)
    return compiled
