"""The accesses of `memory` as single machine instructions, for compiled kernels. Importing this imports numba.

An index expression of numba first tests whether the index is negative, which costs more than the load itself and keeps
loops from being vectorised. Kernels have checked their bounds before, so these do not.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.extending import intrinsic


def _item(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    """Pointer to item ``at`` of a flat array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [at])


@intrinsic
def byte_at(typing_context: Any, data: Any, at: Any) -> Any:
    """The byte at a position inside the array, as an integer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = builder.load(_item(context, builder, signature.args[0], arguments[0], arguments[1]))
        return builder.zext(byte, context.get_value_type(types.int64))

    return types.int64(data, types.int64), generate


@intrinsic
def word_at(typing_context: Any, data: Any, at: Any) -> Any:
    """Eight bytes inside the array as a signed number, little end first."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = context.get_value_type(types.int64)
        pointer = _item(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.load(builder.bitcast(pointer, number.as_pointer()), align=1)

    return types.int64(data, types.int64), generate


@intrinsic
def copy_bytes(typing_context: Any, target: Any, target_at: Any, source: Any, source_at: Any, length: Any) -> Any:
    """Copies ``length`` bytes; both ranges must lie inside their arrays."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = _item(context, builder, signature.args[0], arguments[0], arguments[1])
        start = _item(context, builder, signature.args[2], arguments[2], arguments[3])
        cgutils.raw_memcpy(builder, to, start, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@intrinsic
def copy_16_bytes(typing_context: Any, target: Any, target_at: Any, source: Any, source_at: Any) -> Any:
    """Copies 16 bytes, which is less than a call for a number of bytes that is not known before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        two_words = ir.VectorType(context.get_value_type(types.int64), 2).as_pointer()
        to = _item(context, builder, signature.args[0], arguments[0], arguments[1])
        start = _item(context, builder, signature.args[2], arguments[2], arguments[3])
        builder.store(builder.load(builder.bitcast(start, two_words), align=1), builder.bitcast(to, two_words), align=1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64), generate


def _place(context: Any, builder: Any, table_type: Any, table: Any, field: Any, item: Any) -> Any:
    """Pointer to an item of a table."""
    array = context.make_array(table_type)(context, builder, table)
    items = builder.extract_value(array.shape, 1)
    return builder.gep(array.data, [builder.add(builder.mul(field, items), item)])


@intrinsic
def item_of(typing_context: Any, table: Any, field: Any, item: Any) -> Any:
    """The number of a table at a place inside it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_place(context, builder, signature.args[0], *arguments))

    return types.int64(table, types.int64, types.int64), generate


@intrinsic
def put(typing_context: Any, table: Any, field: Any, item: Any, value: Any) -> Any:
    """Stores into a table, at a place inside it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[3], _place(context, builder, signature.args[0], *arguments[:3]))
        return context.get_dummy_value()

    return types.void(table, types.int64, types.int64, types.int64), generate


@intrinsic
def number_at(typing_context: Any, numbers: Any, at: Any) -> Any:
    """The number at a position inside the array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number = builder.load(_item(context, builder, signature.args[0], arguments[0], arguments[1]))
        return builder.sext(number, context.get_value_type(types.int64))  # offsets have 32 bits

    return types.int64(numbers, types.int64), generate


@intrinsic
def set_number(typing_context: Any, numbers: Any, at: Any, value: Any) -> Any:
    """Stores a number at a position inside the array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _item(context, builder, signature.args[0], arguments[0], arguments[1])
        builder.store(builder.trunc(arguments[2], place.type.pointee), place)
        return context.get_dummy_value()

    return types.void(numbers, types.int64, types.int64), generate
