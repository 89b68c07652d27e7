"""Flat Avro records by column: the compiled way for records of plain fields, which most are.

`ColumnPlan.of` answers None for what only the library decodes: nested records, arrays, maps, unions of more than null
and one other, aliases, other enums, and defaults that are no null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from spark_pulsar.connector.schemas.decoding.avro import kernels
from spark_pulsar.connector.schemas.payloads.decoder import UndecodablePayload
from spark_pulsar.connector.schemas.payloads.flat_payloads import flat, gathered
from spark_pulsar.connector.schemas.payloads.record_types import RecordType
from spark_pulsar.model.avro import AvroField, AvroType

if TYPE_CHECKING:
    import numpy.typing as npt

_OPERATIONS: Final = {
    "null": kernels.NULL,
    "boolean": kernels.BOOLEAN,
    "int": kernels.INT,
    "long": kernels.LONG,
    "float": kernels.FLOAT,
    "double": kernels.DOUBLE,
    "bytes": kernels.BYTES,
    "string": kernels.BYTES,
    "fixed": kernels.FIXED,
    "enum": kernels.ENUM,
}
_REASONS: Final = {
    kernels.TOO_SHORT: "it ends early",
    kernels.NO_BRANCH: "it names a branch that the union has not",
    kernels.NO_VALUE: "a value is none of its type",
    kernels.TOO_LONG: "bytes are left over behind the record",
}


class ColumnPlan:
    """Program of the kernel for one writer's schema, and the way from its table to the columns of a record."""

    def __init__(self, program: npt.NDArray[np.int64], record: RecordType, slots: dict[str, int]) -> None:
        self._program = program
        self._record = record
        self._slots = slots

    @staticmethod
    def of(reader: AvroType, writer: AvroType, record: RecordType) -> ColumnPlan | None:
        """Returns the plan, None where the library must decode."""
        if writer.kind != "record" or reader.kind != "record" or writer.short_name != reader.short_name:
            return None
        written = {each.name: each for each in writer.fields}
        read = {each.name: each for each in reader.fields}
        slots: dict[str, int] = {}
        for name in record.members:
            if read[name].aliases or not _fits(read[name], written.get(name)):
                return None
            if name in written:
                slots[name] = len(slots)
        program = np.zeros((kernels.PROGRAM_FIELDS, len(writer.fields)), np.int64)
        for i, field in enumerate(writer.fields):
            plain = _plain(field.type)
            if plain is None:
                return None
            kind, null_branch = plain
            size = len(kind.symbols) if kind.kind == "enum" else kind.size_bytes
            program[:, i] = _OPERATIONS[kind.kind], null_branch, slots.get(field.name, -1), size
        return ColumnPlan(program, record, slots)

    def decode(self, payloads: Any) -> Any:
        """Returns the records as a struct array of physical types. Raises UndecodablePayload with the row."""
        octets, offsets = flat(payloads)
        table = np.empty((2 * max(1, len(self._slots)), len(payloads)), np.int64)
        code, row = kernels.read_records(octets, offsets.astype(np.int64), self._program, self._program.shape[1], table)
        if code < 0:
            raise UndecodablePayload(f"it is no AVRO of its schema: {_REASONS[code]}", row)
        columns = [self._column(name, member, octets, table) for name, member in self._record.members.items()]
        return pa.StructArray.from_arrays(columns, fields=list(self._record.physical))

    def _column(self, name: str, member: RecordType, octets: Any, table: npt.NDArray[np.int64]) -> Any:
        slot = self._slots.get(name)
        if slot is None:
            return pa.nulls(table.shape[1], member.physical)
        values, lengths = table[2 * slot], table[2 * slot + 1]
        if member.kind in ("bytes", "fixed", "string"):
            column = gathered(octets, values, lengths)
            try:
                return column.cast(pa.string()) if member.kind == "string" else column
            except pa.ArrowInvalid:
                raise UndecodablePayload(f"field {name} is no UTF-8") from None
        null = lengths < 0
        if member.kind == "null":
            return pa.nulls(len(values), member.physical)
        if member.kind == "enum":
            places = pa.array(values, mask=null)
            return pa.array(member.avro.symbols, pa.string()).take(places)
        if member.kind == "float":
            values = values.astype(np.int32).view(np.float32)
        elif member.kind == "double":
            values = values.view(np.float64)
        return pa.array(values != 0 if member.kind == "boolean" else values, mask=null).cast(member.physical)


def _plain(avro: AvroType) -> tuple[AvroType, int] | None:
    """Returns a plain type and the branch of null in its union (-1: no union); None for any other."""
    if avro.kind != "union":
        return (avro, -1) if avro.kind in _OPERATIONS else None
    kinds = [branch.kind for branch in avro.branches]
    if len(kinds) != 2 or "null" not in kinds:
        return None
    null = kinds.index("null")
    other = avro.branches[1 - null]
    return (other, null) if other.kind in _OPERATIONS else None


def _fits(read: AvroField, written: AvroField | None) -> bool:
    """Tells whether the kernel resolves a field of the writer to the reader's."""
    if written is None:
        return read.default is None
    one, other = _plain(read.type), _plain(written.type)
    if one is None or other is None or (other[1] >= 0 and one[1] < 0):
        return False
    alike = one[0].kind == other[0].kind and one[0].size_bytes == other[0].size_bytes
    return alike and one[0].symbols == other[0].symbols and one[0].short_name == other[0].short_name
