"""Opening of many writers or producers side by side (SINK-18): each waits for its broker a few times, and does little
else."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

Key = TypeVar("Key", bound=Hashable)
Opened = TypeVar("Opened")

OPENED_AT_ONCE: Final = 16


def open_each(
    keys: Sequence[Key], open_one: Callable[[Key], Opened], close: Callable[[Opened], None]
) -> dict[Key, Opened]:
    """Opens one for each key, `OPENED_AT_ONCE` at a time, and returns them by key, in the order of the keys.

    Raises the error of the first key that has one; then no more are opened, and those that were are closed again.
    """
    if len(keys) < 2:
        return {key: open_one(key) for key in keys}
    opened: dict[Key, Opened] = {}
    errors: dict[Key, BaseException] = {}

    def attempt(key: Key) -> None:
        if errors:
            return
        try:
            opened[key] = open_one(key)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors[key] = error

    with ThreadPoolExecutor(min(len(keys), OPENED_AT_ONCE), thread_name_prefix="open") as threads:
        threads.map(attempt, keys)
    if errors:
        for item in opened.values():
            close(item)
        raise errors[next(key for key in keys if key in errors)]
    return {key: opened[key] for key in keys}
