"""Payloads that are no JSON: a kernel finds the first place at which one is none, as Python's reader reports it
(SCHEMA-18).

What it is not sure of is left to Python: escapes that are none, words beyond JSON such as NaN, commas at an end (for
which versions of Python have other words), bytes that are no UTF-8.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_pulsar.connector.schemas.decoding import json_fault_kernels as kernels
from spark_pulsar.connector.schemas.payloads.flat_payloads import flat
from spark_pulsar.connector.schemas.payloads.reasons import Reasons

_BEGINNING: Final = "it is no JSON of its schema: "
_WORDS: Final = {
    kernels.UNSURE: "",
    kernels.EXPECTING_VALUE: f"{_BEGINNING}Expecting value",
    kernels.EXPECTING_NAME: f"{_BEGINNING}Expecting property name enclosed in double quotes",
    kernels.EXPECTING_COLON: f"{_BEGINNING}Expecting ':' delimiter",
    kernels.EXPECTING_COMMA: f"{_BEGINNING}Expecting ',' delimiter",
    kernels.UNTERMINATED: f"{_BEGINNING}Unterminated string starting at",
    kernels.INVALID_CONTROL: f"{_BEGINNING}Invalid control character at",
    kernels.EXTRA_DATA: f"{_BEGINNING}Extra data",
    kernels.LINE: ": line ",
    kernels.COLUMN: " column ",
    kernels.CHARACTER: " (char ",
    kernels.END: ")",
}
_OCTETS: Final = np.frombuffer("".join(_WORDS[word] for word in sorted(_WORDS)).encode(), np.uint8)
_BOUNDS: Final = np.cumsum([0, *(len(_WORDS[word]) for word in sorted(_WORDS))])
_ROOM: Final = max(map(len, _WORDS.values())) + kernels.MOST_PLACE_BYTES


def faults_of(payloads: Any, rows: Any) -> Reasons:
    """Returns the reasons of those of the rows of a binary array that are no JSON for sure."""
    if not len(rows):
        return Reasons()
    octets, offsets = flat(payloads)
    stack, texts = np.empty(kernels.MOST_DEPTH, np.int64), np.empty(len(rows) * _ROOM, np.uint8)
    ends = np.empty(len(rows) + 1, np.int32)
    kernels.find_faults(octets, offsets.astype(np.int64), rows, _OCTETS, _BOUNDS, stack, texts, ends)
    is_fault = ends[1:] > ends[:-1]
    if not is_fault.any():
        return Reasons()
    ends = np.concatenate((ends[:1], ends[1:][is_fault]))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(texts[: ends[-1]].copy())]
    return Reasons(rows[is_fault], pa.Array.from_buffers(pa.string(), len(ends) - 1, buffers, 0))
