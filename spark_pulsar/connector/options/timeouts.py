"""Errors of time-outs, which name the options that set them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spark_pulsar.client.errors import OperationTimeout


@contextmanager
def naming(*options: str) -> Iterator[None]:
    """A time-out in here, or in the function that this decorates, says which options set how long is waited."""
    try:
        yield
    except OperationTimeout as error:
        cause = f"{error.cause} " if error.cause else ""
        hint = f"{cause}(how long is set by {' and '.join(options)})"
        raise OperationTimeout(error.what, error.where, error.timeout_ms, hint) from error
