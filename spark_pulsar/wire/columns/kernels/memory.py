"""The accesses to bytes and tables that kernels spend their time in: `instructions` has them for compiled kernels."""

from typing import Any

from spark_pulsar.wire.columns.kernels.compiler import Bytes, Ints, instruction


@instruction
def byte_at(data: Bytes, at: int) -> int:
    """Returns the byte at a position inside the array, as an integer."""
    return data[at]


@instruction
def word_at(data: Any, at: int) -> int:
    """Returns eight bytes inside the array as a signed number, little end first."""
    return int.from_bytes(data[at : at + 8], "little", signed=True)


@instruction
def copy_bytes(target: Any, target_at: int, source: Any, source_at: int, length: int) -> None:
    """Copies ``length`` bytes; both ranges must lie inside their arrays."""
    target[target_at : target_at + length] = source[source_at : source_at + length]


@instruction
def copy_16_bytes(target: Any, target_at: int, source: Any, source_at: int) -> None:
    """Copies 16 bytes, which is less than a call for a number of bytes that is not known before."""
    target[target_at : target_at + 16] = source[source_at : source_at + 16]


@instruction
def item_of(table: Any, field: int, item: int) -> int:
    """Returns the item of a table at a place inside it."""
    number: int = table[field, item]
    return number


@instruction
def put(table: Any, field: int, item: int, value: int) -> None:
    """Stores into a table, at a place inside it."""
    table[field, item] = value


@instruction
def number_at(numbers: Ints, at: int) -> int:
    """Returns the number at a position inside the array."""
    return numbers[at]


@instruction
def set_number(numbers: Ints, at: int, value: int) -> None:
    """Stores a number at a position inside the array."""
    numbers[at] = value
