"""The accesses of `memory` as single machine instructions, for compiled kernels. Importing this imports numba.

An index expression of numba first asks whether the index is negative, which costs more than the load itself and keeps
loops from being vectorised. Kernels have checked their bounds before, so these do not.
"""

from typing import Any

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
def copy_bytes(typing_context: Any, target: Any, target_at: Any, source: Any, source_at: Any, length: Any) -> Any:
    """Copies ``length`` bytes; both ranges must lie inside their arrays."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        to = _item(context, builder, signature.args[0], arguments[0], arguments[1])
        start = _item(context, builder, signature.args[2], arguments[2], arguments[3])
        cgutils.raw_memcpy(builder, to, start, arguments[4], 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@intrinsic
def put(typing_context: Any, table: Any, field: Any, item: Any, value: Any) -> Any:
    """Stores into a table, at a place inside it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        items = builder.extract_value(array.shape, 1)
        place = builder.add(builder.mul(arguments[1], items), arguments[2])
        builder.store(arguments[3], builder.gep(array.data, [place]))
        return context.get_dummy_value()

    return types.void(table, types.int64, types.int64, types.int64), generate
