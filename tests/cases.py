"""Cases that need no test each: as `pytest.mark.parametrize`, but one test for all of them.

    @cases("seed", range(60))
    def test_walk(seed: int) -> None: ...

A test takes pytest ten milliseconds around it, which is much where a case takes one. A failure says which case it was.
Fixtures are shared by the cases.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any


def cases(names: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes one test that runs another for each value; `names`: of one parameter, or of several, as in "a, b"."""
    parameters = [name.strip() for name in names.split(",")]
    chosen = list(values)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def run(**fixtures: Any) -> None:
            for value in chosen:
                given = dict(zip(parameters, value if len(parameters) > 1 else (value,), strict=True))
                try:
                    test(**fixtures, **given)
                except BaseException as error:
                    error.add_note(f"case: {given}"[:1_000])
                    raise

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in parameters]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.place_as = getattr(test, "place_as", test)  # type: ignore[attr-defined]  # where pytest says that it is
        run.pytestmark = getattr(test, "pytestmark", [])  # type: ignore[attr-defined]
        return run

    return decorate
