"""Kernels run compiled in these tests, from the first call on."""

from spark_pulsar.wire.columns.kernels.compiler import compile_now

compile_now()
