"""The accesses to bytes and tables that kernels spend their time in: `instructions` has them for compiled kernels."""

from typing import Any

from spark_pulsar.wire.columns.kernels.compiler import Bytes, instruction


@instruction
def byte_at(data: Bytes, at: int) -> int:
    """Returns the byte at a position inside the array, as an integer."""
    return data[at]


@instruction
def copy_bytes(target: Any, target_at: int, source: Any, source_at: int, length: int) -> None:
    """Copies ``length`` bytes; both ranges must lie inside their arrays."""
    target[target_at : target_at + length] = source[source_at : source_at + length]


@instruction
def put(table: Any, field: int, item: int, value: int) -> None:
    """Stores into a table, at a place inside it."""
    table[field, item] = value
