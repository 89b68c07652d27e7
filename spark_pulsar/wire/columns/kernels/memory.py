"""The two accesses to bytes that kernels spend their time in, as single machine instructions where compiled.

An index expression of numba first asks whether the index is negative, which costs more than the load itself and keeps
loops from being vectorised. Kernels have checked their bounds before, so these do not.
"""

from typing import TYPE_CHECKING, Any

from spark_pulsar.wire.columns.kernels.compiler import COMPILED, Bytes

if TYPE_CHECKING or not COMPILED:

    def byte_at(data: Bytes, at: int) -> int:
        """Returns the byte at a position inside the array, as an integer."""
        return data[at]

    def copy_bytes(target: Any, target_at: int, source: Any, source_at: int, length: int) -> None:
        """Copies ``length`` bytes; both ranges must lie inside their arrays."""
        target[target_at : target_at + length] = source[source_at : source_at + length]

    def put(table: Any, field: int, item: int, value: int) -> None:
        """Stores into a table, at a place inside it."""
        table[field, item] = value

else:
    from numba.core import cgutils, types
    from numba.core.extending import intrinsic

    def _item(context, builder, array_type, array, at):
        """Pointer to item ``at`` of a flat array."""
        data = context.make_array(array_type)(context, builder, array).data
        return builder.gep(data, [at])

    @intrinsic
    def byte_at(typing_context, data, at):
        """The byte at a position inside the array, as an integer."""

        def generate(context, builder, signature, arguments):
            byte = builder.load(_item(context, builder, signature.args[0], arguments[0], arguments[1]))
            return builder.zext(byte, context.get_value_type(types.int64))

        return types.int64(data, types.int64), generate

    @intrinsic
    def copy_bytes(typing_context, target, target_at, source, source_at, length):
        """Copies ``length`` bytes; both ranges must lie inside their arrays."""

        def generate(context, builder, signature, arguments):
            to = _item(context, builder, signature.args[0], arguments[0], arguments[1])
            start = _item(context, builder, signature.args[2], arguments[2], arguments[3])
            cgutils.raw_memcpy(builder, to, start, arguments[4], 1)
            return context.get_dummy_value()

        return types.void(target, types.int64, source, types.int64, types.int64), generate

    @intrinsic
    def put(typing_context, table, field, item, value):
        """Stores into a table, at a place inside it."""

        def generate(context, builder, signature, arguments):
            array = context.make_array(signature.args[0])(context, builder, arguments[0])
            items = builder.extract_value(array.shape, 1)
            place = builder.add(builder.mul(arguments[1], items), arguments[2])
            builder.store(arguments[3], builder.gep(array.data, [place]))
            return context.get_dummy_value()

        return types.void(table, types.int64, types.int64, types.int64), generate
