"""Declaration of kernels, and the choice whether a call runs as machine code.

A kernel is a plain Python function over flat arrays. With numba it is compiled for one fixed signature; the code comes
from a cache directory after the first time (`machine_code`). Without numba, or with ``NUMBA_DISABLE_JIT=1``, the same
function runs interpreted over memoryviews, whose items are Python integers: slow, but the same results.

A process with little to do does not load numba at all, which takes most of a second, and many on a new installation:
its first calls run interpreted, until they have walked over as many items as are about as dear as loading it. A call
with more than that before it, or in it, is compiled at once, and so is every kernel that is called after it.
"""

import functools
import os
from collections.abc import Callable
from importlib.util import find_spec
from types import FunctionType
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np

from spark_pulsar.wire.columns.kernels.declared import INLINED, INSTRUCTIONS, ArgumentType

INTERPRETED_ITEMS: Final = 100_000
"""Items of arrays that a process's calls walk over before it loads numba: about a tenth of a second."""


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


READ_BYTES: Final = ArgumentType("uint8", 1, is_read_only=True)
WRITE_BYTES: Final = ArgumentType("uint8", 1)
READ_INTS: Final = ArgumentType("int64", 1, is_read_only=True)
WRITE_INTS: Final = ArgumentType("int64", 1)
READ_OFFSETS: Final = ArgumentType("int32", 1, is_read_only=True)
WRITE_OFFSETS: Final = ArgumentType("int32", 1)
READ_TABLE: Final = ArgumentType("int64", 2, is_read_only=True)
WRITE_TABLE: Final = ArgumentType("int64", 2)
INT: Final = ArgumentType("int64")

Result = TypeVar("Result")
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _can_compile() -> bool:
    return find_spec("numba") is not None and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")


COMPILED: Final = _can_compile()
"""True when kernels run as machine code in this process, once there is enough to do."""


class _Effort:
    """Items that the calls of this process have walked over."""

    def __init__(self) -> None:
        self.items = 0
        self.is_large = False

    def add(self, arguments: tuple[Any, ...]) -> bool:
        """Counts a call: the longest of its arrays, which it walks over at most a few times. Returns whether there is
        much to do."""
        self.items += max((argument.size for argument in arguments if isinstance(argument, np.ndarray)), default=0)
        if self.items > INTERPRETED_ITEMS:
            self.is_large = True
        return self.is_large


_EFFORT: Final = _Effort()


_DECLARED: "Final[list[Kernel[Any]]]" = []


class Kernel(Generic[Result]):
    """An entry point called from Python."""

    def __init__(self, function: FunctionType, argument_types: tuple[ArgumentType, ...]) -> None:
        functools.update_wrapper(self, function)
        _DECLARED.append(self)
        self.function = function
        self.argument_types = argument_types
        self._compiled: Callable[..., Result] | None = None
        self._can_compile = COMPILED

    def __call__(self, *arguments: Any) -> Result:
        """Runs the kernel."""
        compiled = self._compiled
        if compiled is not None:
            return compiled(*arguments)
        if self._can_compile and (_EFFORT.is_large or _EFFORT.add(arguments)):
            compiled = self.compiled()
            if compiled is not None:
                return compiled(*arguments)
        # Arrays become memoryviews, so that items are Python integers that never overflow.
        result: Result = self.function(*(a.data if isinstance(a, np.ndarray) else a for a in arguments))
        return result

    def compiled(self) -> Callable[..., Result] | None:
        """Returns the machine code, which is loaded or made if need be; None where numba does not work."""
        if self._compiled is None and self._can_compile:
            try:
                from spark_pulsar.wire.columns.kernels.machine_code import compile_kernel
            except ImportError:  # numba is there, and not made for this NumPy or Python
                self._can_compile = False
            else:
                self._compiled = compile_kernel(self.function, self.argument_types)
        return self._compiled


def compile_now() -> None:
    """Compiles all kernels that are imported; those imported later are compiled when they are called."""
    _EFFORT.is_large = True
    for declared in _DECLARED:
        declared.compiled()


def kernel(*argument_types: ArgumentType) -> Callable[[Callable[..., Result]], Kernel[Result]]:
    """Declares an entry point called from Python, for exactly these argument types.

    It runs without the interpreter lock and must check every index itself: there are no bounds checks.
    """

    def decorate(function: Callable[..., Result]) -> Kernel[Result]:
        assert isinstance(function, FunctionType)
        return Kernel(function, argument_types)

    return decorate


def inlined(function: _Function) -> _Function:
    """Declares a function that kernels call; it is compiled into them and has no entry point of its own."""
    INLINED.add(function)
    return function


def instruction(function: _Function) -> _Function:
    """Declares a function that is a machine instruction where compiled."""
    INSTRUCTIONS.add(function)
    return function
