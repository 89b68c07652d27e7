"""Machine code of kernels, by numba, with a cache. Importing this imports numba.

A function that is compiled is a copy of the declared one, in whose globals each function that it calls is numba's: the
declared ones stay plain Python, and run interpreted where that is quicker.

The cache directory, first that can be used:

1. ``NUMBA_CACHE_DIR``, when set;
2. ``__pycache__`` beside the kernels;
3. the user's cache directory (``$XDG_CACHE_HOME`` or ``~/.cache``);
4. a directory of this user alone below the system's temporary directory.

Below 2 to 4 the code lies in a directory named after a digest of all kernel sources, because numba itself checks the
calling function's file only and would keep code of a callee that has changed in another file.

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
from types import CodeType, FunctionType
from typing import Any

import numba
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock

from spark_pulsar.wire.columns.kernels import instructions
from spark_pulsar.wire.columns.kernels.declared import INLINED, INSTRUCTIONS, ArgumentType

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
if hasattr(numba.core.cpu.CPUTargetOptions, "_nrt"):
    # Kernels make no arrays, and their caller holds those it passes. Counting references at every call between kernel
    # functions, which is what this switches off, takes four fifths of the time of a walk through a batch.
    _OPTIONS["_nrt"] = False


def usable(directory: Path) -> bool:
    """Returns whether compiled code may be kept in ``directory``, which is made: this process can write there, and no
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
    sources = {file.name: file for file in files(__package__).iterdir() if file.name.endswith(".py")}
    for name in sorted(sources):
        digest.update(name.encode() + b"\0" + sources[name].read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def _brought_by_spark() -> bool:
    """Returns whether this package goes away with the Spark application that brought it."""
    here = Path(__file__).absolute()
    in_executor = "SPARK_EXECUTOR_DIRS" in os.environ or "CONTAINER_ID" in os.environ  # Spark's own, or YARN's
    return not here.exists() or (in_executor and here.is_relative_to(Path.cwd()))


def _settle(function: FunctionType, directory: str) -> None:
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
    if numba.config.CACHE_DIR:
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


def _type(argument: ArgumentType) -> Any:
    item = getattr(types, argument.item)
    if not argument.dimensions:
        return item
    return types.Array(item, argument.dimensions, "C", readonly=argument.is_read_only)


def _names(code: CodeType) -> set[str]:
    """Returns the names that a function looks up, its inner functions included."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _copy(function: FunctionType) -> FunctionType:
    """Copies a function to one that calls what numba can compile."""
    known = function.__globals__
    called = {name: _numbas(known[name]) for name in _names(function.__code__) if callable(known.get(name))}
    copy = FunctionType(function.__code__, known | called, function.__name__, function.__defaults__)
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


def _numbas(called: Any) -> Any:
    """Returns what stands for a called function in compiled code."""
    if called in INSTRUCTIONS:
        return getattr(instructions, called.__name__)
    return _compile_inlined(called) if called in INLINED else called


@functools.cache
def _compile_inlined(function: FunctionType) -> Any:
    return numba.njit(forceinline=True, **_OPTIONS)(_copy(function))


def compile_kernel(function: FunctionType, argument_types: tuple[ArgumentType, ...]) -> Callable[..., Any]:
    """Compiles a kernel for exactly these argument types, or loads its code from the cache."""
    with global_compiler_lock:
        return _compile(function, argument_types)


@functools.cache
def _compile(function: FunctionType, argument_types: tuple[ArgumentType, ...]) -> Callable[..., Any]:
    copy = _copy(function)
    with _cached_here() as cached:
        if cached and _brought_by_spark():
            directory = Path(numba.config.CACHE_DIR, f"kernels-{_digest()}")
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            _settle(copy, str(directory))
        compiled: Callable[..., Any] = numba.njit(tuple(map(_type, argument_types)), cache=cached, **_OPTIONS)(copy)
    return compiled
