"""Declarations of kernels, for what runs and what compiles them."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple


class ArgumentType(NamedTuple):
    """Type of a kernel's argument: an integer, or a contiguous array."""

    item: str
    dimensions: int = 0
    is_read_only: bool = False
    """Accepts read-only memory too, such as Arrow's."""


INLINED: Final[set[Callable[..., Any]]] = set()
"""Functions that are compiled into the kernels that call them."""
INSTRUCTIONS: Final[set[Callable[..., Any]]] = set()
"""Functions that `instructions` has as single machine instructions, under the same name."""
