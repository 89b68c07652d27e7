"""Calls of the package's functions with arguments that they do not have: refused with the name that may be meant.

Python up to 3.12 says that an argument is unexpected, and no more.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
_CUTOFF: Final = 0.6


def _no_place(name: str) -> str:
    return ""


def naming_arguments(place_of: Callable[[str], str] = _no_place) -> Callable[[Function], Function]:
    """Makes a decorator that answers a call with wrong arguments with a TypeError which names those that there are.

    `place_of` returns where a name that is no argument belongs, such as `options={"mode": …}`, and "" for others.
    """

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(_sentence(function, signature.parameters, kwargs, str(error), place_of)) from None
            return function(*args, **kwargs)

        return called  # type: ignore[return-value]

    return decorate


def _sentence(
    function: Callable[..., Any],
    parameters: Mapping[str, inspect.Parameter],
    given: Mapping[str, Any],
    reason: str,
    place_of: Callable[[str], str],
) -> str:
    called = f"{function.__qualname__.removesuffix('.__init__')}()"
    names = [name for name in parameters if name != "self"]
    unknown = next((name for name in given if name not in names), None)
    if unknown is None:
        return f"{called}: {reason}; its arguments are {', '.join(_shown(parameters))}"
    near = get_close_matches(unknown.lower(), names, 1, _CUTOFF)
    if place := place_of(unknown):
        return f"{called} has no argument {unknown}: give {place}"
    if near:
        return f"{called} has no argument {unknown}: did you mean {near[0]}?"
    return f"{called} has no argument {unknown}; its arguments are {', '.join(_shown(parameters))}"


def _shown(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    """Returns the parameters as they are given: those behind a bare `*` by name."""
    return [
        f"{name}=…" if parameter.kind is inspect.Parameter.KEYWORD_ONLY else name
        for name, parameter in parameters.items()
        if name != "self"
    ]
