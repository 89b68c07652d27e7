"""The library for encryption, which not every installation has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spark_pulsar.client.errors import NotSupportedByClient


@contextmanager
def needing_cryptography() -> Iterator[None]:
    """Imports in here that fail say what to install. Raises NotSupportedByClient."""
    try:
        yield
    except ImportError as error:
        raise NotSupportedByClient(
            f"encrypted messages need the library cryptography, on the driver and on every executor: pip install "
            f"'spark-pulsar[encryption]' ({error})"
        ) from error
