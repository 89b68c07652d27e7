"""JSON payloads, sorted: those that the reader of a whole column accepts, as lines for it, and those in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from spark_pulsar.connector.schemas.decoding import json_kernels as kernels
from spark_pulsar.connector.schemas.payloads.flat_payloads import flat
from spark_pulsar.connector.schemas.payloads.record_types import RecordType

_KINDS: Final = {
    "null": 0,
    "boolean": kernels.BOOLEAN,
    "int": kernels.INT_32,
    "long": kernels.INT_32 | kernels.INT_64,
    "float": kernels.NUMBER,
    "double": kernels.NUMBER,
    "string": kernels.STRING,
    "enum": kernels.STRING,
    "record": kernels.OBJECT,
    "array": kernels.ARRAY,
}
_ANY: Final = 0
_STACK: Final = 1_024


@dataclass(frozen=True, slots=True)
class Lines:
    """Payloads as lines: `text` has those of `is_line`, in order; of each of its located members there are the starts
    and lengths in `octets`, -1 where a payload lacks it."""

    text: memoryview
    is_line: Any
    octets: Any
    located: Any


class LineCheck:
    """Check of payloads of a record. Members named in `located` are any values, found as they stand; where it
    `is_closed`, a record with a member that the schema does not name is in doubt."""

    def __init__(self, record: RecordType, located: tuple[str, ...] = (), *, is_closed: bool = False) -> None:
        self._is_closed = is_closed
        self._nodes = [kernels.ANY, 0, 0, -1, 0, 0, 0, 0, -1, 0]
        self._members: list[int] = []
        self._names = b""
        self._located = located
        self._fill(kernels.NODE_FIELDS, record, located)
        self._tables = [np.array(numbers, np.int64) for numbers in (self._nodes, self._members)]
        self._name_octets = np.frombuffer(self._names, np.uint8)

    def _node(self, record: RecordType) -> int:
        """Returns the node of a type."""
        place = len(self._nodes)
        self._nodes += [0, 0, 0, -1, 0]
        self._fill(place, record, ())
        return place // kernels.NODE_FIELDS

    def _fill(self, place: int, record: RecordType, located: tuple[str, ...]) -> None:
        self._nodes[place + kernels.KINDS] = _KINDS[record.kind]
        if record.kind == "array":
            assert record.items is not None
            self._nodes[place + kernels.FIRST] = self._node(record.items)
        elif record.kind == "record":
            nodes = [(name, self._node(member)) for name, member in record.members.items() if name not in located]
            nodes += [(name, self._any(i)) for i, name in enumerate(located)]
            if self._is_closed:
                self._nodes[place + kernels.CLOSED] = 1
                nodes += [
                    (field.name, self._any(-1)) for field in record.avro.fields if field.name not in record.members
                ]
            self._nodes[place + kernels.FIRST] = len(self._members) // kernels.MEMBER_FIELDS
            for name, node in nodes:
                text = name.encode()
                self._members += [len(self._names), len(text), node]
                self._names += text
            self._nodes[place + kernels.END] = len(self._members) // kernels.MEMBER_FIELDS

    def _any(self, located: int) -> int:
        self._nodes += [kernels.ANY, _ANY, _ANY, located, 0]
        return len(self._nodes) // kernels.NODE_FIELDS - 1

    def lines(self, payloads: Any) -> Lines:
        """Sorts the payloads of a binary array without nulls."""
        octets, offsets = flat(payloads)
        nodes, members = self._tables
        count = len(payloads)
        located = np.full((2 * len(self._located), count), -1, np.int64)
        is_line = np.empty(count, np.int64)
        text = np.empty(int(offsets[-1]) - int(offsets[0]) + count, np.uint8)
        size = kernels.check_lines(
            octets,
            offsets.astype(np.int64),
            count,
            nodes,
            members,
            self._name_octets,
            np.empty(_STACK, np.int64),
            np.full(max(1, len(members)), -1, np.int64),
            located.reshape(-1),
            is_line,
            text,
        )
        return Lines(text[:size].data, is_line != 0, octets, located)
