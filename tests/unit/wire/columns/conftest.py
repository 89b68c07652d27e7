"""Kernels run compiled in these tests, from the first call on."""

import pytest

from spark_pulsar.wire.columns.kernels.compiler import compile_now


@pytest.fixture(scope="session", autouse=True)
def compiled_kernels() -> None:
    """Loads them when the first of these tests runs, as most processes of xdist only collect them."""
    compile_now()
